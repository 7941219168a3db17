// Runs a task graph to its end.

#pragma once

#include <stdexcept>
#include <vector>

#include "sim/task_graph.hpp"

namespace sim {

struct Span {
  Time start{};
  Time end{};
  bool operator==(const Span&) const = default;
};

/// When each task ran, indexed by task id.
struct Timeline {
  std::vector<Span> spans;
  Time makespan{};
  bool operator==(const Timeline&) const = default;
};

/// Thrown when tasks wait for one another so that none of them can start.
class CycleError : public std::invalid_argument {
 public:
  explicit CycleError(std::vector<TaskId> cycle);
  /// Each task waits for the previous one, the first for the last.
  const std::vector<TaskId>& cycle() const { return cycle_; }

 private:
  std::vector<TaskId> cycle_;
};

/// A task starts when its predecessors have ended and its stream is free; all endings at an instant are
/// handled before anything starts, and rates change after everything that starts has started. A running task
/// ends at now + remaining work x factor in force (1 without interference), rounded once, halves up. A stream
/// counts as busy for interference while it runs a task of nonzero length. Pure; O((tasks + dependencies +
/// changes of a running task's rate) log(streams + ready tasks)). Throws CycleError.
Timeline simulate(const TaskGraph& graph);

}  // namespace sim
