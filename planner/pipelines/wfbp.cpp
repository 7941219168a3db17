// Wait-free back-propagation: a group leaves as soon as its last gradient is ready, under the rest of
// backward.

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
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::all_reduce, group, Issue::gradients, Delivers::next_iteration});
  return program;
}

OptimalGroups optimal(const FusionRequest& request) {
  std::vector<sim::Time> ready;
  for (const Gradient& gradient : request.workload.gradients) ready.push_back(gradient.ready);
  return optimal_for_channel(request.workload, ready, request.workload.backward_total,
                             request.costs.of(CollectiveKind::all_reduce));
}

sim::Time lower_bound(const Workload& workload, const Costs& costs, const PipelineOptions& /*options*/,
                      const Extras& extras) {
  return extras.read + workload.forward_total +
         std::max(workload.backward_total, channel_bound(workload, costs.of(CollectiveKind::all_reduce))) +
         extras.lars + extras.lars_gather + extras.update;
}

}  // namespace

Pipeline wfbp() {
  return {"wfbp",     "communicate each group as soon as its gradients are ready", {}, program, optimal,
          lower_bound};
}

}  // namespace planner
