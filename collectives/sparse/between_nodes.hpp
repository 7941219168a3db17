// Compression between nodes only: gradients are summed uncompressed inside a node, and only traffic between
// nodes is encoded.

#pragma once

#include <cstdint>
#include <span>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/sparse/wire.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// Returns the elements that this rank encodes: its part of the gradient in its node.
Range encoded_part(const transport::Transport& transport, std::size_t elements,
                   std::uint32_t workers_per_node);

/// Rank r is worker r % workers_per_node of node r / workers_per_node; std::invalid_argument if nodes are not
/// full. Afterwards `gradient` holds on all ranks the sum over nodes of the decoded encodings of the nodes'
/// sums. Steps: a ring reduce-scatter inside the node ("reduce-scatter"); each rank encodes its part, with
/// `feedback` unless it is null; encodings go between the workers with the same position in their nodes
/// ("between"), either all gathered and added in the order of nodes or, if they can be summed, by a ring
/// all-reduce; a ring all-gather inside the node ("inside"). With n workers in each of m nodes and d
/// elements, each rank receives at most 2 ceil(d (n-1)/n) words, and the encodings of m-1 parts or 2
/// ceil((m-1)/m) of one. With one node nothing is encoded.
void sum_between_nodes(transport::Transport& transport, const compression::Compressor& compressor,
                       std::uint32_t workers_per_node, std::span<float> gradient, compression::State& state,
                       compression::ErrorFeedback* feedback);

/// An all-reduce of encodings that can be summed, with `word` bytes per element, like ring_all_reduce(); and
/// its two halves, like ring_reduce_scatter() and ring_all_gather().
void all_reduce_encoded(transport::Transport& transport, const compression::Compressor& compressor,
                        std::span<std::byte> bytes, std::size_t word);
void reduce_scatter_encoded(transport::Transport& transport, const compression::Compressor& compressor,
                            std::span<std::byte> bytes, std::size_t word);
void all_gather_encoded(transport::Transport& transport, std::span<std::byte> bytes, std::size_t word);

}  // namespace sparse
