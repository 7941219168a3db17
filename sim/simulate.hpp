// Runs a task graph to its end.

#pragma once

#include "sim/task_graph.hpp"
#include "sim/timeline.hpp"

namespace sim {

/// A task starts when its predecessors have ended and its stream is free; all endings at an instant are
/// handled before anything starts, and rates change once all that starts has started. A running task ends at
/// now + work left x factor in force (1 without interference), rounded once, halves up; a stream is busy for
/// interference while it runs a task of some length. Pure; O((tasks + dependencies + changes of a running
/// task's rate) log(streams + ready tasks)). Throws CycleError.
Timeline simulate(const TaskGraph& graph);

}  // namespace sim
