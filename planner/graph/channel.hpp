// The channel of a job: the streams on which collectives run, and the order in which they do.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/graph/lowered.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// Runs collectives in the order in which they are added, in turns where it has several streams. A channel
/// that goes by layer chooses, of those that are ready, the one of the lowest priority value.
class ChannelWriter {
 public:
  /// The streams must exist when tasks are added. Both must outlive this.
  ChannelWriter(const Job& job, sim::TaskGraphBuilder& builder) : job_(job), builder_(builder) {}

  /// Behind what was added to the same stream before.
  sim::TaskId add_in_order(const TaskLabel& label, sim::Time duration);
  /// `bytes` count against the channel's credit.
  sim::TaskId add_by_priority(const TaskLabel& label, sim::Time duration, std::int32_t priority,
                              std::int64_t bytes);

  /// When these have ended, all that was added has.
  const std::vector<sim::TaskId>& last() const { return last_; }
  /// Whether tasks end in the order in which they are added.
  bool is_in_order() const { return !job_.program.by_layer && job_.channels == 1; }
  /// Where nothing that was added before is of interest any more.
  void forget();

 private:
  const Job& job_;
  sim::TaskGraphBuilder& builder_;
  std::uint32_t added_ = 0;
  std::vector<sim::TaskId> last_;
};

}  // namespace planner
