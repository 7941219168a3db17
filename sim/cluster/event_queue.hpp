// The next of many pending times. Every slot has one time at most, and it may change at any moment.

#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/time.hpp"

namespace cluster {

/// A tournament of the slots, 12 bytes each: a change walks a path to the root that is known beforehand, so
/// it waits for no branch, and nothing goes stale. At the same time the lower slot is first.
class EventQueue {
 public:
  static constexpr sim::Time kNever = sim::Time::max();

  std::size_t slots() const { return times_.size(); }

  /// More slots, with nothing pending. Room doubles, as each time costs a match between all.
  void grow(std::size_t slots) {
    if (slots <= times_.size()) return;
    std::size_t room = times_.empty() ? 2 : times_.size();
    while (room < slots) room *= 2;
    times_.resize(room, kNever);
    winners_.resize(room);
    for (std::size_t node = room; node-- > 1;)
      winners_[node] = better(winner_below(2 * node), winner_below(2 * node + 1));
  }

  /// kNever: nothing is pending.
  void set(std::uint32_t slot, sim::Time at) {
    times_[slot] = at;
    std::size_t node = (slot + times_.size()) / 2;
    std::uint32_t winner = better(slot & ~1U, slot | 1U);
    for (;;) {
      const std::uint32_t before = winners_[node];
      if (before != slot && winner != slot) return;  // further up nobody notices
      winners_[node] = winner;
      if (node == 1) return;
      winner = better(winner, winners_[node ^ 1U]);
      node /= 2;
    }
  }

  sim::Time at(std::uint32_t slot) const { return times_[slot]; }
  std::uint32_t first() const { return winners_[1]; }
  sim::Time first_time() const { return times_.empty() ? kNever : times_[winners_[1]]; }

 private:
  std::uint32_t better(std::uint32_t a, std::uint32_t b) const {
    const bool is_b = times_[b] < times_[a] || (times_[b] == times_[a] && b < a);
    return is_b ? b : a;
  }
  /// Nodes from times_.size() on are the slots themselves.
  std::uint32_t winner_below(std::size_t node) const {
    return node < times_.size() ? winners_[node] : static_cast<std::uint32_t>(node - times_.size());
  }

  std::vector<sim::Time> times_;        // by slot
  std::vector<std::uint32_t> winners_;  // by node: 1 is the root, below n are 2n and 2n + 1
};

}  // namespace cluster
