// ByteScheduler: splits tensors into partitions; of the ready ones, the one for the layer nearest the input
// is sent first, and a layer's next forward pass waits only for its own partitions. Partitions handed to the
// channel, up to a credit, cannot be overtaken.

#include <array>

#include "core/limits.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::array<std::string_view, 3> kKeys = {"partition_bytes", "credit_bytes", "negotiation_us"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto bytes = field.find("partition_bytes"))
    options.partition_bytes = bytes->integer(1, core::kMaxBytes);
  if (const auto bytes = field.find("credit_bytes"))
    options.credit_bytes = bytes->integer(1, core::kMaxBytes);
  if (const auto us = field.find("negotiation_us")) options.negotiation_us = us->number(0, core::kMaxTimeUs);
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program;
  program.update = Update::by_group;
  program.by_layer = ByLayer{.credit_bytes = options.credit_bytes};
  program.negotiation = sim::from_us(options.negotiation_us);
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::all_reduce, group, Issue::gradients, Delivers::own_layers});
  return program;
}

bool takes_fusion(std::string_view kind) { return kind == "partitions" || kind == "plan"; }

}  // namespace

Pipeline priority() {
  return {.name = "priority",
          .summary = "partitions of the layer nearest the input first (ByteScheduler)",
          .option_keys = kKeys,
          .program = program,
          .read = read,
          .default_fusion = "partitions",
          .takes_fusion = takes_fusion,
          .takes_compression = false};
}

}  // namespace planner
