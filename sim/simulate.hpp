// Runs a task graph to its end.

#pragma once

#include "sim/task_graph.hpp"
#include "sim/timeline.hpp"

namespace sim {

/// A task starts when its predecessors have ended and its stream is free; all endings at an instant are
/// handled before anything starts, and rates change after everything that starts has started. A running task
/// ends at now + remaining work x factor in force (1 without interference), rounded once, halves up. A stream
/// counts as busy for interference while it runs a task of nonzero length. Pure; O((tasks + dependencies +
/// changes of a running task's rate) log(streams + ready tasks)). Throws CycleError and TooLong.
Timeline simulate(const TaskGraph& graph);

}  // namespace sim
