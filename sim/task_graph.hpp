// The input of a simulation: tasks, the streams they run on, and their dependencies. Knows nothing of layers,
// gradients or networks.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/time.hpp"

namespace sim {

enum class TaskId : std::uint32_t {};
enum class StreamId : std::uint32_t {};

constexpr std::size_t index(TaskId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(StreamId id) { return static_cast<std::size_t>(id); }

struct Task {
  /// The work, as the time it takes at full speed.
  Time duration;
  StreamId stream;
  /// The ready task with the lowest value runs first on a stream, then the one that was ready first, then the
  /// lowest id.
  std::int32_t priority = 0;
  /// Identifies the task for the builder of the graph, which derives names from it on request.
  std::uint64_t label = 0;
};

/// Two streams that share a resource: while any stream of `by` is busy, tasks on `stream` take `factor` times
/// as long.
struct Interference {
  StreamId stream;
  std::vector<StreamId> by;
  double factor = 1;
};

/// Limits how far a stream's queue can be overtaken. Ready tasks are committed in order as long as the sum of
/// their sizes is at most the credit, or a single larger task alone. Committed tasks run first come, first
/// served, and count until they have ended. A task that does not fit yet holds up those after it. Tasks are
/// committed at the end of each instant, zero-length tasks included.
struct Window {
  StreamId stream;
  std::int64_t credit = 0;
};

/// Immutable; edges are stored as compressed rows. Built by TaskGraphBuilder.
class TaskGraph {
 public:
  TaskGraph() = default;

  std::span<const std::string> streams() const { return streams_; }
  std::span<const Task> tasks() const { return tasks_; }
  /// At most one per stream.
  std::span<const Interference> interferences() const { return interferences_; }
  /// At most one per stream.
  std::span<const Window> windows() const { return windows_; }
  /// The size that a task counts against its stream's credit, sorted by task; 0 for tasks that are not
  /// listed.
  std::span<const std::pair<TaskId, std::int64_t>> sizes() const { return sizes_; }
  std::size_t dependency_count() const { return targets_.size(); }

  /// The same graph in which these tasks take no time; `is_free` by task.
  TaskGraph with_free(const std::vector<bool>& is_free) const;

  /// The tasks that wait for this one.
  std::span<const TaskId> successors(TaskId task) const {
    const std::size_t begin = row_starts_[index(task)];
    return std::span(targets_).subspan(begin, row_starts_[index(task) + 1] - begin);
  }

 private:
  friend class TaskGraphBuilder;

  std::vector<std::string> streams_;
  std::vector<Task> tasks_;
  std::vector<Interference> interferences_;
  std::vector<Window> windows_;
  std::vector<std::pair<TaskId, std::int64_t>> sizes_;
  std::vector<std::uint32_t> row_starts_ = {0};  // start of each task's successors in targets_, and the end
  std::vector<TaskId> targets_;
};

class TaskGraphBuilder {
 public:
  /// A stream runs one task at a time, like a CUDA stream or a network port.
  StreamId add_stream(std::string name);
  TaskId add_task(Task task);
  /// `later` may start only after `earlier` has ended.
  void add_dependency(TaskId earlier, TaskId later);
  /// While any of the streams `by` is busy, tasks on `stream` take `factor` (>= 1) times as long; the factor
  /// applies once, however many of them are busy. At most once per stream. Streams may slow one another.
  void slow_down(StreamId stream, std::vector<StreamId> by, double factor);

  /// Commits tasks ready for `stream` up to this credit (> 0), see Window. At most once per stream.
  void limit(StreamId stream, std::int64_t credit);
  /// Sets the size for the credit of its stream; tasks must come in the order in which they were added.
  void set_size(TaskId task, std::int64_t size);

  void reserve(std::size_t tasks, std::size_t dependencies);
  std::size_t task_count() const { return graph_.tasks_.size(); }

  TaskGraph build() &&;

 private:
  TaskGraph graph_;
  std::vector<std::pair<TaskId, TaskId>> dependencies_;
};

}  // namespace sim
