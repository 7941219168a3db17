// What Boost.Graph says about a task graph: an order, a cycle, the critical path.

#pragma once

#include <vector>

#include "sim/simulate.hpp"
#include "sim/task_graph.hpp"

namespace sim {

/// Every task after all that it waits for. Throws CycleError.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Tasks each of which waits for the one before, and the first for the last; empty if there is no cycle.
std::vector<TaskId> find_cycle(const TaskGraph& graph);

/// Why the run took as long as it did: tasks back to back from time 0 to the makespan, each waiting for the
/// one before, by a dependency or for its stream. Under interference a task on it may last longer than its
/// duration because of tasks that are not. `timeline` is what simulate(graph) gave.
std::vector<TaskId> critical_path(const TaskGraph& graph, const Timeline& timeline);

}  // namespace sim
