// Collectives that overlap the next forward pass: a layer waits only for those of its own groups.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "planner/graph/collectives.hpp"

namespace planner {

class UnderNextForward {
 public:
  /// All arguments must outlive this object.
  UnderNextForward(GraphWriter& writer, CollectiveWriter& collectives, UpdateWriter& update);

  /// Makes the next forward pass of the group's layers wait for this collective.
  void deliver(std::uint32_t group, sim::TaskId collective) { delivered_[group] = collective; }
  /// Issues the op, one per group, when forward has reached one of the groups before it.
  void defer(const Op& op) { deferred_.push_back(&op); }
  /// Called when forward reaches the layer: adds what its groups require.
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
