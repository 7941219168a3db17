// Returns the earliest of many pending times. Each slot has at most one time, which may change at any moment.

#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/time.hpp"

namespace cluster {

/// A tournament tree over the slots, 12 bytes each. A change updates one path to the root, which is known
/// beforehand, so there are no unpredictable branches and no stale entries. Equal times are ordered by slot.
class EventQueue {
 public:
  static constexpr sim::Time kNever = sim::Time::max();

  std::size_t slots() const { return times_.size(); }

  /// Adds slots with nothing pending. The capacity doubles because each growth rebuilds the whole tree.
  void grow(std::size_t slots) {
    if (slots <= times_.size()) return;
    std::size_t room = times_.empty() ? 2 : times_.size();
    while (room < slots) room *= 2;
    times_.resize(room, kNever);
    winners_.resize(room);
    for (std::size_t node = room; node-- > 1;)
      winners_[node] = better(winner_below(2 * node), winner_below(2 * node + 1));
  }

  /// `at` = kNever removes the slot's time.
  void set(std::uint32_t slot, sim::Time at) {
    times_[slot] = at;
    std::int64_t first = at.count();
    std::uint32_t winner = slot;
    std::uint32_t rival = slot ^ 1U;
    std::int64_t rival_is_left = slot & 1U;
    for (std::size_t node = (slot + times_.size()) / 2;; node /= 2) {
      const std::int64_t other = times_[rival].count();
      // All bits set if the rival comes first; of equal times, the left one does. A compiler makes a branch
      // of any other form, which is mispredicted half of the time.
      const std::int64_t is_rival = (other - rival_is_left - first) >> 63;
      first = std::min(first, other);
      winner ^= (winner ^ rival) & static_cast<std::uint32_t>(is_rival);
      const std::uint32_t before = winners_[node];
      if (before != slot && winner != slot) return;  // nodes further up do not change
      winners_[node] = winner;
      if (node == 1) return;
      rival = winners_[node ^ 1U];
      rival_is_left = static_cast<std::int64_t>(node & 1U);
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
  /// Nodes with indices from times_.size() on are the slots themselves.
  std::uint32_t winner_below(std::size_t node) const {
    return node < times_.size() ? winners_[node] : static_cast<std::uint32_t>(node - times_.size());
  }

  std::vector<sim::Time> times_;        // indexed by slot
  std::vector<std::uint32_t> winners_;  // indexed by node: 1 is the root, the children of n are 2n and 2n + 1
};

}  // namespace cluster
