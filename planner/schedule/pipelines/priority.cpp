// ByteScheduler: tensors in partitions; of those that are ready the one for the layer nearest the input goes
// first, and a layer's next forward pass waits for its own alone. What has been handed to the channel, up to
// a credit, is not overtaken.

#include <algorithm>
#include <array>

#include "core/limits.hpp"
#include "planner/choose/fusion/partitions.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/simulate_iteration.hpp"
#include "planner/schedule/fusion.hpp"
#include "planner/schedule/pipeline.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

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

/// There is one grouping, each partition alone, unless a plan says otherwise.
class PriorityModel final : public IterationModel {
 public:
  explicit PriorityModel(const FusionRequest& request) : request_(request) {}

  Time value(const Groups& groups) const override { return simulate_iteration(request_, groups); }

  /// All compute, and the channel from the first gradient on; then some layer's forward pass has to follow.
  Time lower_bound() const override {
    const Workload& workload = request_.workload;
    const Extras& extras = request_.extras;
    const Time compute =
        extras.read + workload.forward_total + workload.backward_total + extras.lars + extras.lars_gather;
    if (request_.schedule.fusion.kind != "partitions" || request_.transfers.front().workers() == 1)
      return compute + extras.update;
    Time channel = workload.gradients.front().ready;
    for (const Group& part : partitions_of(workload, request_.options.partition_bytes))
      channel += sim::from_us(request_.options.negotiation_us) +
                 request_.transfers[part.transfer].time(CollectiveKind::all_reduce, bytes_of(workload, part));
    return std::max(compute + extras.update, channel);
  }

  OptimalGroups optimal(const GroupRules& /*rules*/) const override {
    OptimalGroups out;
    out.groups = partitions_of(request_.workload, request_.options.partition_bytes);
    out.value = value(out.groups);
    return out;
  }

 private:
  const FusionRequest& request_;
};

std::unique_ptr<IterationModel> model(const FusionRequest& request) {
  return std::make_unique<PriorityModel>(request);
}

bool takes_fusion(std::string_view kind) { return kind == "partitions" || kind == "plan"; }

}  // namespace

Pipeline priority() {
  return {.name = "priority",
          .summary = "partitions of the layer nearest the input first (ByteScheduler)",
          .option_keys = kKeys,
          .program = program,
          .model = model,
          .read = read,
          .default_fusion = "partitions",
          .takes_fusion = takes_fusion,
          .takes_compression = false};
}

}  // namespace planner
