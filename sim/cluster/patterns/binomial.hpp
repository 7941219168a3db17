// The rounds of a binomial tree with rank 0 at its root, in which the children of a rank are 1, 2, 4, ...
// ranks after it: neighbours, which are often in a node, are reached last.

#pragma once

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// In round 0 to doublings(ranks) - 1.
Move binomial_broadcast(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round);

/// The same messages backwards, summed up at rank 0.
Move binomial_reduce(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round);

}  // namespace cluster
