// Sparse all-reduces without a state: TopkA, TopkDSA (SparCML's) and gTopk. Each rank gives its own selection
// of a gradient of `elements` elements; std::invalid_argument if it is not one. All ranks end with the same
// bytes, in any run: contributions are summed in a fixed order, not in that of their arrival.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse/wire.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// How what all ranks need gets to them: on a ring, or in ceil(log2 P) messages of doubled length, as the
/// papers count (with as many more to tell lengths where they differ).
enum class Gathering { ring, rounds };

/// The sum of all selections, in the order of ranks. All are gathered and each rank sums: with k selected on
/// each, exactly 2k(P-1) words received. In rounds each rank has to select as many. Memory in gradients:
/// 2Pk/n gathered, 1 1/32 to sum, twice the density of the sum.
SparseVector topk_a(transport::Transport& transport, const SparseVector& own, std::size_t elements,
                    Gathering gathering = Gathering::ring);

/// The same in `sum`, as long as the gradient; how many elements it has. No rank may select more than `most`,
/// the same on all ranks: where P times as many would take more than half a gradient, selections go round one
/// at a time (gather.hpp). Memory in gradients: half a one gathered at most, 1/32 to sum.
std::size_t topk_a(transport::Transport& transport, const SparseVector& own, std::size_t max,
                   std::span<float> sum);

struct DsaSum {
  std::vector<float> sum;
  std::size_t non_zeros = 0;
};

/// The sum of all selections, in the order of ranks. The gradient is cut into P equal parts; each rank
/// receives its part of all selections, sums it, and the sums are gathered. A part, received or
/// summed, travels as all its elements when more than 2/3 of them are not zero, else as indexes and values;
/// one control word tells which. Words received: for each of the 2(P-1) parts 1 and the lesser of that; in
/// rounds P-1 more for lengths. Memory in gradients: the sum, and a few of its P parts; in rounds all of
/// them.
DsaSum topk_dsa(transport::Transport& transport, const SparseVector& own, std::size_t elements,
                Gathering gathering = Gathering::ring);
/// The same in `sum`, as long as the gradient; how many of its elements are not zero. On a ring no more of
/// the sums than `window`, where that is not 0, wait for a late rank (gather.hpp).
std::size_t topk_dsa(transport::Transport& transport, const SparseVector& own, std::span<float> sum,
                     Gathering gathering = Gathering::ring, std::uint32_t window = 2);

/// What a collective that selects again has selected.
struct Selected {
  SparseVector sum;
  /// Indexes that are both in the rank's own selection and in `sum`: what the rank must not keep for the next
  /// iteration.
  std::vector<std::uint32_t> contributed;
};

/// Whether a rank sends as soon as it can, or when it is asked to by a message without content, so that no
/// more than one waits for a rank that is late.
enum class Sending { at_once, when_asked };

/// Selections are summed up a binary tree to rank 0; after each sum the k of greatest magnitude go on; the
/// last are sent down again. With k selected on each, rank 0 sends and receives 4k ceil(log2 P) words, and no
/// rank more; asking is a phase "reduce/asked". As in the paper, a contribution that a merge has dropped
/// counts as contributed if its index is selected through another branch. Memory in gradients: 8k/n, in which
/// `own` and what waits when it was asked for are counted, and 1/32; else up to 2k/n ceil(log2 P) wait
/// besides.
Selected gtopk(transport::Transport& transport, SparseVector own, std::size_t elements, std::size_t k,
               Sending sending = Sending::at_once);

}  // namespace sparse
