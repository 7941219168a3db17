// Runs a scenario: every number of workers, and for each every schedule.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/advise/consider.hpp"
#include "planner/advise/explain.hpp"
#include "planner/advise/what_if.hpp"
#include "planner/emit/emit.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/run/interval.hpp"
#include "planner/run/predict.hpp"
#include "planner/run/worker_report.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

struct Changed {
  std::string change;  ///< as the user wrote it
  planner::Metrics metrics;
};

struct Entry {
  std::string schedule;
  std::string pipeline;
  std::string fusion;
  std::string compression = "none";
  planner::Metrics metrics;
  std::optional<planner::WorkerReport> by_worker;  ///< where workers differ
  std::vector<Changed> what_if;                    ///< of the same groups, for each change asked for
  std::optional<planner::Interval> interval = {};  ///< where the inputs carry a spread
};

struct Results {
  std::string scenario;
  std::vector<std::string> warnings;  ///< each once, in the order in which they came up
  std::vector<Entry> entries;         ///< by number of workers and, inside, schedule, in the scenario's order
  std::vector<JobResult> jobs;        ///< by number of workers, of the scenario's job
};

/// Called after each of `total` simulations.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

/// Throws InputError, naming the place in the scenario, where it asks for what cannot be.
Results run(const Scenario& scenario, const Progress& progress = {},
            const std::vector<planner::Change>& changes = {});

/// Chrome trace text of every schedule on one number of workers, three iterations at most: of these workers,
/// each of them once and below that number, or if none are named of the slowest, the first or whichever, as
/// all are alike.
std::string timeline(const Scenario& scenario, std::int64_t workers,
                     const std::vector<std::int64_t>& shown = {});

struct Planned {
  planner::PlanFile plan;
  std::vector<std::string> warnings;
  std::optional<planner::Emission> emission;
  std::optional<planner::Explanation> explanation;
};

/// What to make of a plan besides the plan.
struct PlanOptions {
  std::string emit;  ///< one of planner::emitters(), or empty
  bool explain = false;
};

/// A plan for one number of workers by one schedule.
Planned plan(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
             const PlanOptions& options = {});

struct Considered {
  planner::Consideration consideration;
  std::vector<std::string> warnings;
};

/// Whether compression pays on one number of workers, under the schedule's pipeline.
Considered consider(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
                    const planner::ConsiderOptions& options);

}  // namespace scenarios
