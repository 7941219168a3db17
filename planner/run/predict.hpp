// Predicts what one schedule does on one number of workers, by simulating it.

#pragma once

#include <optional>
#include <vector>

#include "planner/graph/lower.hpp"
#include "planner/run/all_workers.hpp"
#include "planner/run/measure.hpp"
#include "planner/schedule/fusion.hpp"
#include "planner/schedule/schedule.hpp"
#include "planner/schedule/setting.hpp"
#include "sim/simulate.hpp"

namespace planner {

/// A prediction with all that led to it.
struct Run {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< that the groups name
  std::optional<Proof> proof;           ///< of the groups, where their fusion has one
  Program program;
  Lowered lowered;
  sim::Timeline timeline;                 ///< where workers differ, of the one that is shown
  std::vector<sim::Time> marks;           ///< when the last worker reaches each of lowered's
  std::optional<AllWorkers> all_workers;  ///< where they differ and nothing slows anything down
  Prediction prediction;
  std::vector<Warning> warnings;
};

Run run(const Setting& setting, const Schedule& schedule);

/// These groups under the schedule's pipeline; nothing measured yet. Throws Unsupported where they take
/// longer than can be simulated.
Run simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                    std::vector<TransferCost> transfers);

/// The same groups with every worker by itself, where the slowest stood for all.
Run simulate_workers_of(const Setting& setting, const Run& run);

/// The graph of all workers at once, each with tasks of its own: what simulate_groups() runs where workers
/// draw and compute and channel slow each other.
Lowered lower_every_worker(const Setting& setting, const Run& run);

/// The task graph of one worker that nothing slows, over so many iterations: what a live worker runs.
Lowered lower_one_worker(const Setting& setting, const Run& run, std::uint32_t iterations);

/// The mean iteration that these groups would give, the input's max included; jitter aside. As quick as the
/// request's model.
double iteration_us(const Setting& setting, const FusionRequest& request, const Groups& groups);

/// A time that no grouping under the schedule's pipeline can beat, the input's max included; jitter aside.
/// Of collectives that go rank by rank it knows nothing: it is what the slowest worker computes.
double lower_bound_us(const Setting& setting, const Schedule& schedule);

}  // namespace planner
