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

/// Adds the tracks and slices of one stage under the process name `process`: reading, passes, messages,
/// collectives and the update. Tasks on the critical path of all stages have the argument `critical`.
void add_stage_slices(const RanStages& ran, std::int64_t stage, const std::string& process,
                      std::vector<core::Track>& tracks, std::vector<core::Slice>& slices);

/// When the stage waits for its own collectives and for nothing else: between two passes from the moment when
/// all else that the second one needs is there, and after the last pass of all stages. Sorted; waits for
/// other stages are not included. In time since the begin of the iteration.
std::vector<sim::Span> waits_for_collectives(const RanStages& ran, std::int64_t stage);

}  // namespace planner
