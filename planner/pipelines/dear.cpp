// DeAR: each all-reduce in two halves. Reduce-scatters hide under this iteration's backward pass, all-gathers
// under the next one's forward pass.

#include <algorithm>

#include "planner/bounds.hpp"
#include "planner/fusion.hpp"
#include "planner/optimal.hpp"
#include "planner/pipeline.hpp"

namespace planner {
namespace {

using traces::CollectiveKind;

Program program(std::uint32_t groups, const PipelineOptions& /*options*/) {
  Program program;
  program.update = Update::by_group;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::nothing});
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::drained, Delivers::own_layers});
  return program;
}

OptimalGroups optimal(const FusionRequest& request) {
  return optimal_for_two_phases(request.workload, request.costs, request.extras);
}

sim::Time lower_bound(const Workload& workload, const Costs& costs, const PipelineOptions& /*options*/,
                      const Extras& extras) {
  const sim::Time drained =
      std::max(workload.backward_total, channel_bound(workload, costs.of(CollectiveKind::reduce_scatter)));
  const sim::Time compute = extras.read + workload.forward_total + extras.update;
  const sim::Time gathers =
      extras.lars_gather + gathered_forward_bound(workload, costs.of(CollectiveKind::all_gather));
  return drained + extras.lars + std::max(compute, gathers);
}

}  // namespace

Pipeline dear() {
  return {"dear",  "reduce-scatter under backward, all-gather under the next forward",
          {},      program,
          optimal, lower_bound};
}

}  // namespace planner
