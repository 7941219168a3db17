// What a ring takes whose messages take a constant time on each link, without stepping through its rounds.

#pragma once

#include <cstdint>
#include <span>

namespace cluster {

/// A little under 2^61 ps.
constexpr double kMaxRingUs = 2e12;

/// Applies `rounds` times, for all places i of a ring at once: times[i] = max(times[i] + message[i],
/// times[i - 1] + message[i - 1]). `rounds` is at least the size of the ring minus 1, as in every phase of a
/// ring collective. Takes O(P log P), and O(P) where speeds have no order along the ring. No time before or
/// after may exceed 2^61, and neither may rounds x the longest message.
void advance_ring(std::span<const std::int64_t> message, std::uint32_t rounds, std::span<std::int64_t> times);

}  // namespace cluster
