// Runs a job with pipeline stages and data-parallel groups inside tensor and expert groups.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "planner/parallel/job_graph.hpp"
#include "planner/parallel/parallel.hpp"
#include "planner/parallel/stage_memory.hpp"
#include "planner/run/memory.hpp"
#include "planner/run/metrics.hpp"
#include "planner/schedule/schedule.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// What the workers of one stage do in an iteration.
struct StageMetrics {
  std::int64_t stage = 0;
  std::int64_t groups = 0;
  double forward_us = 0;  ///< all passes; the next likewise
  double backward_us = 0;
  double bubble_us = 0;         ///< in which the stage would wait for others if collectives took no time
  double communication_us = 0;  ///< time in which its channels are busy
  double passes_end_us = 0;     ///< since the iteration began
  double end_us = 0;            ///< when its collectives have ended, too
  std::optional<MemoryPeak> memory = {};  ///< of one of its workers, if the conditions ask for it
};

/// What the parts of a run refer to.
struct DividedJob {
  ProcessGroups groups;
  std::vector<core::Profile> profiles;  ///< of each part
};

struct ParallelRun {
  Metrics metrics;
  std::vector<StageMetrics> stages;
  std::vector<Warning> warnings;
  /// Whether no other groups of tensors give a shorter iteration.
  bool is_exact = false;
  std::shared_ptr<const DividedJob> job;
  std::vector<ModelPart> parts;
  std::optional<PartGroups> tied;  ///< the copies of the last stage that the first one sums, too
  Conditions conditions;  ///< those of the run, without stragglers: of the slowest replica, which all others
                          ///< wait for
  JobGraph graph;
  sim::Timeline timeline;
};

/// The profile is that of one worker: with tensor and expert parallelism its layers have what is left of
/// their tensors, and their times include the collectives of these. The iteration is reading, the slowest
/// stage, and the update, for which all stages wait. With stragglers it is that of the slowest replica.
/// Throws Unsupported for other conditions that workers do not share, and for compression.
ParallelRun run_parallel(const core::Profile& profile, const core::Network& network, std::int64_t workers,
                         const Algorithm& all_reduce, const Conditions& conditions, const Schedule& schedule,
                         const Parallel& parallel);

/// The iteration of stages that take this long: with reading before or beside them, and the update.
double iteration_us(sim::Time stages, const Conditions& conditions);

/// The run for stage_memory() and the slices of stages. Refers to both, which must outlive it.
RanStages ran_stages(const ParallelRun& run, const Parallel& parallel);

}  // namespace planner
