// The rounds of a binomial tree rooted at rank 0. The children of a rank are 1, 2, 4, ... ranks after it;
// neighbours, which are often in the same node, are reached last.

#pragma once

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// `round` ranges from 0 to doublings(ranks) - 1.
Move binomial_broadcast(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round);

/// The same messages in reverse order, summed up at rank 0.
Move binomial_reduce(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round);

}  // namespace cluster
