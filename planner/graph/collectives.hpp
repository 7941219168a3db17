// Collectives of gradients: what is encoded before them, which tick they wait for, what is decoded after
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
  /// Both must outlive this.
  CollectiveWriter(GraphWriter& writer, UpdateWriter& update);

  /// Before the backward pass whose gradients are sent: ticks count from here.
  void begin_backward();
  /// Where `at` begins its backward pass: as soon as its first task can run.
  static void note_backward_begin(WorkerTasks& at);
  /// A step of the backward pass. `item` as its label has it.
  void backward(WorkerTasks& at, std::uint32_t step, std::uint32_t item);
  /// The groups whose last gradient this step yields.
  const std::vector<std::uint32_t>& groups_after(std::uint32_t step) const { return by_last_step_[step]; }
  /// The groups that wait for the whole backward pass.
  const std::vector<std::uint32_t>& groups_after_backward() const { return by_last_step_.back(); }
  /// The gradients of a group are there. Where it travels encoded `at` encodes it.
  void encode(WorkerTasks& at, std::uint32_t group);
  bool is_decoded(std::uint32_t group) const;
  void decode(WorkerTasks& at, std::uint32_t group);

  /// The op's collective, as soon as its issue allows, and what is decoded before the next iteration.
  sim::TaskId add(const Op& op);
  /// The same without what it waits for.
  sim::TaskId add_alone(const Op& op, std::uint32_t iteration);

 private:
  std::optional<sim::TaskId> tick_of(std::uint32_t group);
  bool is_task(std::uint32_t group, sim::Time duration) const;

  GraphWriter& writer_;
  UpdateWriter& update_;
  std::vector<std::vector<std::uint32_t>> by_last_step_;  // groups; the last element after all of backward
  std::optional<sim::TaskId> last_tick_;
  sim::Time last_tick_at_{};
};

}  // namespace planner
