#include "planner/choose/simulate_iteration.hpp"

#include <algorithm>

#include "planner/graph/lower.hpp"
#include "planner/schedule/setting.hpp"
#include "sim/simulate.hpp"

namespace planner {

using sim::Time;

sim::Time simulate_iteration(const FusionRequest& request, const Groups& groups) {
  const Program program =
      request.pipeline.program(static_cast<std::uint32_t>(groups.size()), request.options);
  const bool in_passes = std::any_of(program.ops.begin(), program.ops.end(), [](const Op& op) {
    return op.issue == Issue::forward || op.issue == Issue::backward;
  });
  const std::int64_t further = in_passes ? request.setting.conditions.accumulation_steps - 1 : 0;
  const Lowered lowered = lower({.workload = request.workload,
                                 .transfers = request.transfers,
                                 .program = program,
                                 .groups = groups,
                                 .extras = request.extras,
                                 .overlap = request.overlap,
                                 .iterations = 1,
                                 .micro_batches = static_cast<std::uint32_t>(further + 1)});
  const sim::Timeline timeline = sim::simulate(lowered.graph);
  return at_mark(lowered.marks.back(), timeline) - at_mark(lowered.marks.front(), timeline) -
         further * (request.workload.forward_total + request.workload.backward_total);
}

}  // namespace planner
