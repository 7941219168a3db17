#include "planner/simulate_iteration.hpp"

#include <algorithm>

#include "planner/lower.hpp"
#include "sim/simulate.hpp"

namespace planner {

using sim::Time;

sim::Time simulate_iteration(const FusionRequest& request, const Groups& groups) {
  const Program program =
      request.pipeline.program(static_cast<std::uint32_t>(groups.size()), request.options);
  const Lowered lowered = lower({.workload = request.workload,
                                 .ways = request.ways,
                                 .program = program,
                                 .groups = groups,
                                 .extras = request.extras,
                                 .overlap = request.overlap,
                                 .iterations = 1});
  const sim::Timeline timeline = sim::simulate(lowered.graph);
  return at_mark(lowered.marks.back(), timeline) - at_mark(lowered.marks.front(), timeline);
}

}  // namespace planner
