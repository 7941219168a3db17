// Dense collectives on float data, in the steps that the simulator counts: the rounds of a
// cluster::BytePattern, or the two trees of a double binary tree. Every rank calls, with as many values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/transport/transport.hpp"
#include "sim/cluster/patterns.hpp"

namespace transport {

/// What is longer travels as messages of so many values.
constexpr std::size_t kPiece = 1 << 14;

/// A pattern of values, not bytes: made for as many "bytes" as there are values, so that none is cut. Each
/// rank ends as the pattern's Outcome says; an all-reduce leaves the same bytes on all.
void run_pattern(Transport& transport, const cluster::BytePattern& pattern, std::span<float> values,
                 std::uint32_t tag);

/// Pieces follow each other up and down the trees.
void run_trees(Transport& transport, const cluster::DoubleBinaryTree& trees, std::span<float> values,
               std::uint32_t tag, std::size_t piece = kPiece);

/// Whichever of the two it is.
void run_collective(Transport& transport, const cluster::Collective& collective, std::span<float> values,
                    std::uint32_t tag);

/// Each rank's values go to the next one, the last's to the first: a step of a ring.
void send_receive(Transport& transport, std::span<float> values, std::uint32_t tag);

/// Returns when all ranks have called it.
void barrier(Transport& transport, std::uint32_t tag);

}  // namespace transport
