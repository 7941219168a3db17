// Dense collectives on float data, with the steps that the simulator models: the rounds of a
// cluster::BytePattern, or the two trees of a double binary tree. Every rank must call them with the same
// number of values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/transport/transport.hpp"
#include "sim/cluster/patterns.hpp"

namespace transport {

/// Longer data is sent as messages of this many values.
constexpr std::size_t kPiece = 1 << 14;

/// The pattern counts values, not bytes, so that no value is cut. Each rank ends with the pattern's Outcome;
/// an all-reduce leaves the same bytes on all ranks.
void run_pattern(Transport& transport, const cluster::BytePattern& pattern, std::span<float> values,
                 std::uint32_t tag);

/// Pieces follow each other up and down the trees.
void run_trees(Transport& transport, const cluster::DoubleBinaryTree& trees, std::span<float> values,
               std::uint32_t tag, std::size_t piece = kPiece);

/// Runs whichever of the two it is.
void run_collective(Transport& transport, const cluster::Collective& collective, std::span<float> values,
                    std::uint32_t tag);

/// Sends each rank's values to the next one, the last rank's to the first: one step of a ring.
void send_receive(Transport& transport, std::span<float> values, std::uint32_t tag);

/// Returns when all ranks have called it.
void barrier(Transport& transport, std::uint32_t tag);

}  // namespace transport
