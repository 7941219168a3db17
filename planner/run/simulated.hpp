// Simulates a choice on a clock: from groups to a timeline.

#pragma once

#include <optional>
#include <vector>

#include "planner/run/all_workers.hpp"
#include "planner/run/executable.hpp"
#include "planner/schedule/choice.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// What was run, and when.
struct Simulated : Executable {
  sim::Timeline timeline;                 ///< where workers differ, of the one that is shown
  std::vector<sim::Time> marks;           ///< when the last worker reaches each of lowered's
  std::optional<AllWorkers> all_workers;  ///< where they differ and nothing slows anything down
};

/// These groups under the schedule's pipeline. Throws Unsupported where they take longer than can be
/// simulated.
Simulated simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                          std::vector<TransferCost> transfers);

/// The same groups with every worker by itself, where the slowest stood for all.
Simulated simulate_workers_of(const Setting& setting, const CommunicationPlan& plan);

/// The graph of all workers at once, each with tasks of its own: what simulate_groups() runs where workers
/// draw and compute and channel slow each other.
Lowered lower_every_worker(const Setting& setting, const CommunicationPlan& plan);

/// The task graph of one worker that nothing slows, over so many iterations: what a live worker runs.
Lowered lower_one_worker(const Setting& setting, const CommunicationPlan& plan, std::uint32_t iterations);

}  // namespace planner
