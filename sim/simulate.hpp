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

/// When each task ran, by task id.
struct Timeline {
  std::vector<Span> spans;
  Time makespan{};
  bool operator==(const Timeline&) const = default;
};

/// Some tasks wait for one another and none of them can ever start.
class CycleError : public std::invalid_argument {
 public:
  explicit CycleError(std::vector<TaskId> cycle);
  /// Each waits for the one before, the first for the last.
  const std::vector<TaskId>& cycle() const { return cycle_; }

 private:
  std::vector<TaskId> cycle_;
};

/// A task starts when its predecessors have ended and its stream is free; all endings at an instant are
/// handled before anything starts, and rates change once all that starts has started. A running task ends at
/// now + work left x factor in force (1 without interference), rounded once, halves up; a stream is busy for
/// interference while it runs a task of some length. Pure; O((tasks + dependencies + changes of a running
/// task's rate) log(streams + ready tasks)). Throws CycleError.
Timeline simulate(const TaskGraph& graph);

}  // namespace sim
