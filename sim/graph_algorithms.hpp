// Runs Boost.Graph algorithms on a task graph: topological order, cycle, critical path.

#pragma once

#include <stdexcept>
#include <vector>

#include "sim/task_graph.hpp"
#include "sim/timeline.hpp"

namespace sim {

/// Thrown when tasks wait for one another so that none of them can start.
class CycleError : public std::invalid_argument {
 public:
  explicit CycleError(std::vector<TaskId> cycle);
  /// Each task waits for the previous one, the first for the last.
  const std::vector<TaskId>& cycle() const { return cycle_; }

 private:
  std::vector<TaskId> cycle_;
};

/// Returns all tasks, each after its predecessors. Throws CycleError.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Returns tasks that each wait for the previous one, and the first for the last; empty if there is no cycle.
std::vector<TaskId> find_cycle(const TaskGraph& graph);

/// Returns the tasks that explain the makespan: tasks back to back from time 0 to the end, each waiting for
/// the previous one because of a dependency or its stream. Under interference a task on it may last longer
/// than its duration because of tasks that are not on it. `timeline` is the result of simulate(graph).
std::vector<TaskId> critical_path(const TaskGraph& graph, const Timeline& timeline);

}  // namespace sim
