#include "planner/choose/simulate_iteration.hpp"

#include "planner/graph/lower.hpp"
#include "sim/simulate.hpp"

namespace planner {

using sim::Time;

namespace {

Time simulated(const IterationSpec& spec, const Groups& groups) {
  const Program program = spec.program(groups.size());
  const std::int64_t further =
      program.sends_in_each_batch() ? spec.setting.conditions.accumulation_steps - 1 : 0;
  const Lowered lowered = lower({.workload = spec.workload,
                                 .transfers = spec.transfers,
                                 .program = program,
                                 .groups = groups,
                                 .extras = spec.extras,
                                 .overlap = spec.overlap,
                                 .iterations = 1,
                                 .micro_batches = static_cast<std::uint32_t>(further + 1)});
  const sim::Timeline timeline = sim::simulate(lowered.graph);
  return at_mark(lowered.marks.back(), timeline) - at_mark(lowered.marks.front(), timeline) -
         further * (spec.workload.forward_total + spec.workload.backward_total);
}

}  // namespace

Time simulate_iteration(const IterationSpec& spec, const Groups& groups) {
  return within_clock([&] { return simulated(spec, groups); });
}

}  // namespace planner
