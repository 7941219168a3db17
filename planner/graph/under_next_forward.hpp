// Collectives that reach under the next forward pass: a layer waits for those of its own groups alone.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "planner/graph/collectives.hpp"

namespace planner {

class UnderNextForward {
 public:
  /// All must outlive this.
  UnderNextForward(GraphWriter& writer, CollectiveWriter& collectives, UpdateWriter& update);

  /// The next forward pass of the group's layers waits for this collective.
  void deliver(std::uint32_t group, sim::TaskId collective) { delivered_[group] = collective; }
  /// The op is issued when forward has come to one of the groups before it: one op for each group.
  void defer(const Op& op) { deferred_.push_back(&op); }
  /// The forward pass has come to the layer: what its groups need comes before it.
  void come_to(std::uint32_t layer);

 private:
  void issue_next(std::uint32_t come_to);
  void receive(WorkerTasks& at, std::uint32_t group);

  GraphWriter& writer_;
  CollectiveWriter& collectives_;
  UpdateWriter& update_;
  std::vector<std::vector<std::uint32_t>> by_first_layer_;
  std::vector<sim::TaskId> delivered_;  // by group
  std::deque<const Op*> deferred_;
};

}  // namespace planner
