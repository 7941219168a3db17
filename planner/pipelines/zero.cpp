// ZeRO-1/2 (DeepSpeed, Megatron's distributed optimizer): reduce-scatter under backward, each worker updates
// its shard, then the parameters are gathered, before the next forward pass or under it.

#include <algorithm>
#include <array>

#include "planner/bounds.hpp"
#include "planner/fusion.hpp"
#include "planner/optimal.hpp"
#include "planner/pipeline.hpp"

namespace planner {
namespace {

using traces::CollectiveKind;

constexpr std::array<std::string_view, 1> kKeys = {"overlap_gather"};

Program program(std::uint32_t groups, const PipelineOptions& options) {
  if (options.overlap_gather) return pipeline("dear").program(groups, options);
  Program program;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::nothing});
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::updated, Delivers::next_iteration});
  return program;
}

OptimalGroups optimal(const FusionRequest& request) {
  if (request.options.overlap_gather) return pipeline("dear").optimal(request);
  return optimal_for_separate_phases(request.workload, request.costs);
}

sim::Time lower_bound(const Workload& workload, const Costs& costs, const PipelineOptions& options,
                      const Extras& extras) {
  if (options.overlap_gather) return pipeline("dear").lower_bound(workload, costs, options, extras);
  const sim::Time drained =
      std::max(workload.backward_total, channel_bound(workload, costs.of(CollectiveKind::reduce_scatter)));
  return extras.read + workload.forward_total + drained + extras.lars + extras.lars_gather + extras.update +
         least_channel_time(workload, costs.of(CollectiveKind::all_gather)).front();
}

}  // namespace

Pipeline zero() {
  return {"zero",  "reduce-scatter under backward, update a shard, all-gather the parameters",
          kKeys,   program,
          optimal, lower_bound};
}

}  // namespace planner
