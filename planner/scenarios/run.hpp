// Runs a scenario: every number of workers with every schedule.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/chrome_trace.hpp"
#include "planner/advise/consider.hpp"
#include "planner/advise/explain.hpp"
#include "planner/advise/memory_front.hpp"
#include "planner/advise/what_if.hpp"
#include "planner/emit/emit.hpp"
#include "planner/parallel/run.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/run/interval.hpp"
#include "planner/run/memory.hpp"
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
  std::optional<planner::WorkerReport> by_worker;  ///< set if workers differ
  std::vector<Changed> what_if;                    ///< the same groups under each requested change
  std::optional<planner::Interval> interval = {};  ///< set if the inputs have a spread
  /// Set if the scenario asks for it; of the stage that needs the most.
  std::optional<planner::MemoryPeak> memory = {};
  std::vector<planner::StageMetrics> stages = {};  ///< of a scenario with the key parallel
};

struct Results {
  std::string scenario;
  std::vector<std::string> warnings;  ///< without duplicates, in first-seen order
  std::vector<Entry> entries;         ///< by number of workers, then schedule, in the scenario's order
  std::vector<JobResult> jobs;        ///< by number of workers; for the scenario's job
};

/// The fastest on this number of workers, which must have an entry; the first of equal ones.
const Entry& fastest(const std::vector<Entry>& entries, std::int64_t workers);
/// Whether the entry is slower than the fastest one, but not in nearly all of the samples that both have.
bool is_as_fast(const Entry& entry, const Entry& fastest);

/// The state of run(): how many of its entries are done and, of the next one, how many samples of how many.
struct Progress {
  std::size_t done = 0;
  std::size_t total = 0;
  std::int64_t samples_done = 0;
  std::int64_t samples = 0;
};

struct RunOptions {
  std::function<void(const Progress&)> progress = {};
  std::vector<planner::Change> changes = {};
  /// Simulations for each prediction interval: as many as the work that the scenario's intervals may take
  /// allows, with a warning where that is too little, or this number; 0: no intervals.
  std::optional<std::int64_t> samples = {};
  /// Whether results that need no timeline may be found without one. They are the same, sooner.
  bool may_skip_simulation = false;
};

/// Throws InputError that names the place in the scenario if something cannot be simulated.
Results run(const Scenario& scenario, const RunOptions& options = {});

/// The timeline of one worker, or of a worker of one stage, under one schedule.
struct WorkerTimeline {
  std::string schedule;
  std::optional<std::int64_t> stage = {};
  std::string process;  ///< the schedule, the worker and the number of workers, in words
  std::vector<core::Track> tracks;
  std::vector<core::Slice> slices;
  std::vector<core::Counter> counters;
  std::vector<sim::Time> marks;  ///< when the last worker begins the first iteration and ends each
  /// When a stage waits for collectives and for no other stage; otherwise that is whenever it computes
  /// nothing.
  std::optional<std::vector<sim::Span>> waits = {};
};

/// Returns the timelines of every schedule on one number of workers, with at most three iterations. They show
/// the given workers, which must be distinct and below that number; by default the slowest, or the first if
/// all are alike. With the key `parallel` they show one iteration of every stage, and no workers can be
/// given.
std::vector<WorkerTimeline> timelines(const Scenario& scenario, std::int64_t workers,
                                      const std::vector<std::int64_t>& shown = {});

/// Returns these timelines as a Chrome trace.
std::string timeline(const Scenario& scenario, std::int64_t workers,
                     const std::vector<std::int64_t>& shown = {});

struct Planned {
  planner::PlanFile plan;
  std::vector<std::string> warnings;
  std::optional<planner::Emission> emission;
  std::optional<planner::Explanation> explanation;
};

/// Outputs of plan() besides the plan file.
struct PlanOptions {
  std::string emit;    ///< name of one of planner::emitters(), or empty
  std::string target;  ///< the framework to plan for: the name of an emitter with a target; or empty
  bool explain = false;
  bool combine = false;  ///< whether the explanation has combined what-ifs
  /// Called before each step of the explanation; `total` is their number.
  std::function<void(std::size_t total, const std::string& what)> progress = {};
};

/// Makes a plan for one number of workers with one schedule.
Planned plan(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
             const PlanOptions& options = {});

struct Fronted {
  planner::MemoryFront front;
  planner::Schedule chosen;  ///< the schedule with the groups and options of the plan that was chosen
};

/// Finds the fastest plans of a sharded schedule for each amount of memory.
Fronted memory_front(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule);

struct Considered {
  planner::Consideration consideration;
  std::vector<std::string> warnings;
};

/// Decides whether compression pays on one number of workers, under the schedule's pipeline.
Considered consider(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
                    const planner::ConsiderOptions& options);

}  // namespace scenarios
