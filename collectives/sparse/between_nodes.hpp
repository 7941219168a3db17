// Any compressor between nodes alone: gradients are summed dense inside a node, and only what goes between
// nodes is encoded.

#pragma once

#include <cstdint>
#include <span>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/sparse/wire.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// Which elements this rank encodes: its part of the gradient of so many elements in its node.
Range encoded_part(const transport::Transport& transport, std::size_t elements,
                   std::uint32_t workers_per_node);

/// Rank r is worker r % workers_per_node of node r / workers_per_node; std::invalid_argument if nodes are not
/// full. Afterwards `gradient` holds, on all ranks alike, the sum over nodes of what encodings of the nodes'
/// sums say. A ring reduce-scatter inside the node ("reduce-scatter"); each rank encodes its part, with
/// `feedback` where it is not null; encodings go between the workers with the same place in their nodes
/// ("between"), all gathered and added in the order of nodes or, where they can be summed, by a ring
/// all-reduce; a ring all-gather inside the node ("inside"). In words, with n workers in each of m nodes and
/// d elements, each rank receives at most 2 ceil(d (n-1)/n), and the encodings of m-1 parts or 2
/// ceil((m-1)/m) of one. With one node nothing is encoded.
void sum_between_nodes(transport::Transport& transport, const compression::Compressor& compressor,
                       std::uint32_t workers_per_node, std::span<float> gradient, compression::State& state,
                       compression::ErrorFeedback* feedback);

/// Encodings that can be summed, of `word` bytes an element, as ring_all_reduce() does; and its two halves,
/// as ring_reduce_scatter() and ring_all_gather() do.
void all_reduce_encoded(transport::Transport& transport, const compression::Compressor& compressor,
                        std::span<std::byte> bytes, std::size_t word);
void reduce_scatter_encoded(transport::Transport& transport, const compression::Compressor& compressor,
                            std::span<std::byte> bytes, std::size_t word);
void all_gather_encoded(transport::Transport& transport, std::span<std::byte> bytes, std::size_t word);

}  // namespace sparse
