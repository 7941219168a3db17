// What Boost.Graph says about a task graph: an order, a cycle, the longest path.

#pragma once

#include <stdexcept>
#include <vector>

#include "sim/task_graph.hpp"
#include "sim/timeline.hpp"

namespace sim {

/// Some tasks wait for one another and none of them can ever start.
class CycleError : public std::invalid_argument {
 public:
  explicit CycleError(std::vector<TaskId> cycle);
  /// Each waits for the one before, the first for the last.
  const std::vector<TaskId>& cycle() const { return cycle_; }

 private:
  std::vector<TaskId> cycle_;
};

/// Every task after all that it waits for. Throws CycleError.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Tasks each of which waits for the one before, and the first for the last; empty if there is no cycle.
std::vector<TaskId> find_cycle(const TaskGraph& graph);

/// The longest chain of dependencies alone, streams and interference ignored: no schedule ends sooner. Throws
/// CycleError.
Time longest_path(const TaskGraph& graph);

/// Why the run took as long as it did: tasks back to back from time 0 to the makespan, each waiting for the
/// one before, by a dependency or for its stream. Under interference a task on it may last longer than its
/// duration because of tasks that are not. `timeline` is what simulate(graph) gave.
std::vector<TaskId> critical_path(const TaskGraph& graph, const Timeline& timeline);

}  // namespace sim
