// A run of pipeline stages for a timeline viewer: the tasks of a stage as named slices on its tracks, and
// when its passes wait for collectives.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/chrome_trace.hpp"
#include "planner/parallel/stage_memory.hpp"

namespace planner {

/// The time between the begin of an iteration and that of its stages: reading and waiting, unless reading is
/// overlapped.
sim::Time before_stages(const Conditions& conditions);

/// Whether tasks of this kind are collectives, and not passes or messages.
bool is_collective(StageTask::Kind kind);

/// What the timelines of all stages share, by task.
struct StageFacts {
  std::vector<bool> is_critical;         ///< whether it is on the critical path of all stages
  std::vector<sim::Time> without_waits;  ///< when all that it needs but collectives has ended
  sim::Time passes_end{};                ///< of all stages
};

StageFacts stage_facts(const RanStages& ran);

/// Adds the tracks and slices of one stage under the process name `process`: reading, passes, messages,
/// collectives and the update. Tasks on the critical path have the argument `critical`.
void add_stage_slices(const RanStages& ran, const StageFacts& facts, std::int64_t stage,
                      const std::string& process, std::vector<core::Track>& tracks,
                      std::vector<core::Slice>& slices);

/// When the stage waits for its own collectives and for nothing else: between two passes from the moment when
/// all else that the second one needs has ended, and after the last pass of all stages. Sorted; waits for
/// other stages are not included. In time since the begin of the iteration.
std::vector<sim::Span> waits_for_collectives(const RanStages& ran, const StageFacts& facts,
                                             std::int64_t stage);

}  // namespace planner
