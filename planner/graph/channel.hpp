// The channel of a job: the streams on which collectives run, and their order.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/graph/lowered.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// Runs collectives in the order in which they are added, round-robin over several streams. A channel that
/// goes by layer runs the ready collective with the lowest priority value. Collectives between shard groups
/// run in order on a stream of their own.
class ChannelWriter {
 public:
  /// The streams must exist when tasks are added. `job` and `builder` must outlive this object.
  ChannelWriter(const Job& job, sim::TaskGraphBuilder& builder)
      : job_(job), builder_(builder), is_divided_(job.channels > 1 || job.program.has_channel_between()) {}

  /// Adds a task that runs after the earlier tasks of the same stream.
  sim::TaskId add_in_order(const TaskLabel& label, sim::Time duration);
  /// Adds a task that runs by priority; `bytes` count against the channel's credit.
  sim::TaskId add_by_priority(const TaskLabel& label, sim::Time duration, std::int32_t priority,
                              std::int64_t bytes);

  /// Adds a task to the stream between shard groups, after the earlier tasks there.
  sim::TaskId add_between(const TaskLabel& label, sim::Time duration);

  /// When these tasks have ended, all tasks added so far have ended.
  std::vector<sim::TaskId> last() const;
  /// Whether there are several streams.
  bool is_divided() const { return is_divided_; }
  /// Whether tasks end in the order in which they are added.
  bool is_in_order() const { return !job_.program.by_layer && !is_divided(); }
  /// Discards the record of earlier tasks.
  void forget();

 private:
  const Job& job_;
  sim::TaskGraphBuilder& builder_;
  bool is_divided_;
  std::uint32_t added_ = 0;
  std::vector<sim::TaskId> last_;
  std::optional<sim::TaskId> last_between_;
};

}  // namespace planner
