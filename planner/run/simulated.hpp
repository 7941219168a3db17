// Simulates a choice: from groups to a timeline.

#pragma once

#include <optional>
#include <vector>

#include "planner/run/all_workers.hpp"
#include "planner/run/executable.hpp"
#include "planner/schedule/choice.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// A run and its times.
struct Simulated : Executable {
  sim::Timeline timeline;                 ///< if workers differ, of the worker shown
  std::vector<sim::Time> marks;           ///< when the last worker reaches each mark of `lowered`
  std::optional<AllWorkers> all_workers;  ///< set if workers differ and overlap slows nothing down
};

/// Simulates these groups under the schedule's pipeline; `with_path` as in simulate_all_workers(). Throws
/// Unsupported if they exceed the time that can be simulated.
Simulated simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                          std::vector<TransferCost> transfers, bool with_path = true);

/// Checks that compute and the communication of the groups, including ticks, fit the range of sim::Time over
/// all iterations; otherwise throws Unsupported. Messages of collectives that are simulated rank by rank are
/// checked as they run.
void check_run(const Setting& setting, const CommunicationPlan& plan);

/// Simulates the same groups with every worker individually instead of one worker that represents all.
Simulated simulate_workers_of(const Setting& setting, const CommunicationPlan& plan);

/// The graph of all workers at once, each with its own tasks: simulate_groups() runs it if workers have
/// random factors and compute and channel slow each other down.
Lowered lower_every_worker(const Setting& setting, const CommunicationPlan& plan);

/// The task graph of one worker without slowdown over a number of iterations, which a live worker runs.
Lowered lower_one_worker(const Setting& setting, const CommunicationPlan& plan, std::uint32_t iterations);

}  // namespace planner
