// Writes the collectives of gradients: the encoding before them, the tick they wait for, the decoding after
// them.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph/graph_writer.hpp"
#include "planner/graph/update.hpp"

namespace planner {

class CollectiveWriter {
 public:
  /// `writer` and `update` must outlive this object.
  CollectiveWriter(GraphWriter& writer, UpdateWriter& update);

  /// Called before the backward pass whose gradients are sent: ticks count from this point.
  void begin_backward();
  /// Records the start of the worker's backward pass: the moment its first task can run.
  static void note_backward_begin(WorkerTasks& at);
  /// Adds a step of the backward pass. `item` is the item of the task's label.
  void backward(WorkerTasks& at, std::uint32_t step, std::uint32_t item);
  /// The groups that are issued after this step: it yields the last gradient that they wait for.
  const std::vector<std::uint32_t>& groups_after(std::uint32_t step) const { return by_last_step_[step]; }
  /// The groups that wait for the whole backward pass.
  const std::vector<std::uint32_t>& groups_after_backward() const { return by_last_step_.back(); }
  /// Called when the gradients of a group are ready. Encodes them if the group is sent encoded.
  void encode(WorkerTasks& at, std::uint32_t group);
  bool is_decoded(std::uint32_t group) const;
  void decode(WorkerTasks& at, std::uint32_t group);

  /// Adds the op's collective, as early as its issue rule allows, and the decoding before the next iteration.
  sim::TaskId add(const Op& op);
  /// Adds the op's collective between shard groups, after the reduce-scatter of its group.
  sim::TaskId add_between(const Op& op, sim::TaskId scattered);
  /// Adds the op's collective without its dependencies.
  sim::TaskId add_alone(const Op& op, std::uint32_t iteration);

 private:
  std::optional<sim::TaskId> tick_of(std::uint32_t group);
  bool is_task(std::uint32_t group, sim::Time duration) const;

  GraphWriter& writer_;
  UpdateWriter& update_;
  std::vector<std::vector<std::uint32_t>> by_last_step_;  // groups by their last step; the last element holds
                                                          // those after all of backward
  std::optional<sim::TaskId> last_tick_;
  sim::Time last_tick_at_{};
};

}  // namespace planner
