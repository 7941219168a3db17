// Explains the plans of a job with process groups and pipeline stages: what the collectives of each stage and
// of each group add to the iteration, what moving a group's boundaries costs, and what bounds the iteration.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/advise/explain.hpp"
#include "planner/parallel/run.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

struct StageReason {
  std::int64_t stage = 0;
  double bubble_us = 0;         ///< as in planner::StageMetrics; the next likewise
  double communication_us = 0;  ///< time in which its channels are busy
  double exposed_us = 0;        ///< time in which it waits for its own collectives and for nothing else
  double saves_us = 0;          ///< by how much shorter the iteration is if its collectives take no time
};

/// A group of tensors of one part of the model and process group.
struct StageGroupReason {
  std::int64_t stage = 0;
  std::optional<std::int64_t> part = {};  ///< of the model, where a stage has several
  bool of_experts = false;
  std::size_t number = 0;       ///< in its part and process group, from 0
  planner::GroupReason reason;  ///< its times count from the start of the iteration, and exposed is what its
                                ///< collectives take of the stage's exposed time
  double saves_us = 0;          ///< by how much shorter the iteration is if its collectives take no time
};

struct StageExplanation {
  double iteration_us = 0;
  double without_collectives_us = 0;         ///< the iteration if no collective takes time
  std::optional<double> tied_saves_us = {};  ///< by how much shorter it is if that of tied tensors takes none
  std::vector<StageReason> stages;
  std::vector<StageGroupReason> groups;
  bool tries_other_groups = true;     ///< whether groups were merged and split
  std::string bound_by;               ///< as in planner::Explanation; the next two likewise
  std::vector<planner::WhatIf> free;  ///< also messages between stages, if they take time
  std::vector<planner::WhatIf> other;
  std::optional<planner::CombinedWhatIfs> combined = {};
};

/// `run` is the result of run_divided(scenario, run.metrics.workers, schedule). Merging, splitting and
/// what-ifs are runs of the whole job with other groups or inputs; the best plan under a change has the
/// groups of the fusion `optimal`, or this plan's if these are faster. Changes under which nothing can be run
/// are left out, and so are merging and splitting where that takes more than kMaxTasksOfOtherGroups in all.
/// `progress` is called before each of its steps; `total` is their number. `combines` asks for combined
/// what-ifs, which are absent where their runs have more tasks than kMaxTasksOfOtherGroups in all. Throws
/// core::Unsupported for runs with more tasks than kMaxExplainedTasks.
StageExplanation explain_stages(
    const Scenario& scenario, const planner::Schedule& schedule, const planner::ParallelRun& run,
    const std::function<void(std::size_t total, const std::string& what)>& progress = {},
    bool combines = false);

constexpr std::size_t kMaxExplainedTasks = 500'000;  // a run takes half a second
constexpr double kMaxTasksOfOtherGroups = 2e7;       // half a minute

std::string stage_explanation_text(const StageExplanation& explanation, std::size_t width = 0);
std::string stage_explanation_json(const StageExplanation& explanation);

}  // namespace scenarios
