// After backward: the whole backward pass, then every group, then the next iteration (S-SGD, SyncEASGD).

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
    program.ops.push_back({CollectiveKind::all_reduce, group, Issue::backward_end, Delivers::next_iteration});
  return program;
}

OptimalGroups optimal(const FusionRequest& request) {
  const std::vector<sim::Time> ready(request.workload.gradients.size(), request.workload.backward_total);
  return optimal_for_channel(request.workload, ready, request.workload.backward_total,
                             request.costs.of(CollectiveKind::all_reduce));
}

sim::Time lower_bound(const Workload& workload, const Costs& costs, const PipelineOptions& /*options*/,
                      const Extras& extras) {
  return extras.read + workload.forward_total + workload.backward_total +
         least_channel_time(workload, costs.of(CollectiveKind::all_reduce)).front() + extras.lars +
         extras.lars_gather + extras.update;
}

}  // namespace

Pipeline after_backward() {
  return {"after_backward", "communicate when the backward pass has ended", {}, program, optimal,
          lower_bound};
}

}  // namespace planner
