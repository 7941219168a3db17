// ZeRO-3 and FSDP: each worker stores a shard of the parameters. The parameters of a group are gathered
// before the forward pass of its layers and again before their backward pass, `prefetch` groups ahead; its
// gradients are scattered after backward, and each worker updates its shard.

#include <array>

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::array<std::string_view, 4> kKeys = {"prefetch", "backward_prefetch", "reshard_after_forward",
                                                   "kept_groups"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto ahead = field.find("prefetch"))
    options.prefetch = static_cast<std::uint32_t>(ahead->integer(0, kMaxPrefetch));
  if (const auto ahead = field.find("backward_prefetch"))
    options.backward_prefetch = static_cast<std::uint32_t>(ahead->integer(0, kMaxPrefetch));
  if (const auto reshards = field.find("reshard_after_forward")) {
    options.reshard_after_forward = reshards->boolean();
    options.kept_groups.reset();
  }
  if (const auto kept = field.find("kept_groups")) {
    if (field.has("reshard_after_forward"))
      kept->expected("either reshard_after_forward or kept_groups", "both");
    options.kept_groups = static_cast<std::uint32_t>(kept->integer(0, kMaxPrefetch));
    options.reshard_after_forward.reset();
  }
}

/// By default PyTorch keeps the parameters that backward needs first: those of the last group of the forward
/// pass.
bool is_gathered_again(std::uint32_t group, const PipelineOptions& options) {
  if (options.kept_groups) return group >= *options.kept_groups;
  return options.reshard_after_forward.value_or(group > 0);
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program;
  program.prefetch = options.prefetch.value_or(1);
  program.sharding = Sharding::parameters;
  program.backward_prefetch = options.backward_prefetch;
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::forward, Delivers::own_pass});
  for (std::uint32_t group = 0; group < groups; ++group) {
    if (is_gathered_again(group, options))
      program.ops.push_back({CollectiveKind::all_gather, group, Issue::backward, Delivers::own_pass});
    program.ops.push_back(
        {CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::next_iteration});
  }
  return program;
}

/// robust samples only a single micro-batch.
bool takes_fusion(std::string_view kind) { return kind != "robust"; }

}  // namespace

Pipeline sharded() {
  return {.name = "sharded",
          .summary = "gather parameters before forward and backward, reduce-scatter gradients (FSDP)",
          .option_keys = kKeys,
          .program = program,
          .read = read,
          .takes_fusion = takes_fusion,
          .takes_compression = false,
          .gathers_parameters = true};
}

}  // namespace planner
