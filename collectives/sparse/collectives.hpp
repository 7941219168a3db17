// Stateless sparse all-reduces: TopkA, TopkDSA (SparCML's) and gTopk. Each rank passes its own selection of a
// gradient of `elements` elements; std::invalid_argument if it is not one. All ranks end with the same bytes,
// in any run: contributions are summed in a fixed order, not in the order of their arrival.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse/wire.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// How data reaches all ranks: on a ring, or in ceil(log2 P) messages of doubling length, as the papers count
/// (plus as many messages for the lengths if they differ).
enum class Gathering { ring, rounds };

/// Returns the sum of all selections, in the order of ranks. All selections are gathered and each rank sums
/// them: with k selected on each, exactly 2k(P-1) words received. With `rounds`, every rank must select the
/// same number. Memory in gradients: 2Pk/n gathered, 1 1/32 to sum, twice the density of the sum.
SparseVector topk_a(transport::Transport& transport, const SparseVector& own, std::size_t elements,
                    Gathering gathering = Gathering::ring);

/// Like the other overload, but writes into `sum`, which is as long as the gradient; returns the number of
/// elements of the sum. No rank may select more than `max`, which is the same on all ranks: if P times `max`
/// would take more than half a gradient, selections go round one at a time (gather.hpp). Memory in gradients:
/// at most half a gradient gathered, 1/32 to sum.
std::size_t topk_a(transport::Transport& transport, const SparseVector& own, std::size_t max,
                   std::span<float> sum);

struct DsaSum {
  std::vector<float> sum;
  std::size_t non_zeros = 0;
};

/// Returns the sum of all selections, in the order of ranks. The gradient is cut into P equal parts; each
/// rank receives its part of all selections, sums it, and the sums are gathered. A part, received or summed,
/// is sent dense if more than 2/3 of its elements are nonzero, otherwise as indexes and values; one control
/// word tells which. Words received: for each of the 2(P-1) parts 1 and the smaller of the two sizes; with
/// `rounds` P-1 more for lengths. Memory in gradients: the sum, and a few of its P parts; with `rounds` all
/// of them.
DsaSum topk_dsa(transport::Transport& transport, const SparseVector& own, std::size_t elements,
                Gathering gathering = Gathering::ring);
/// Like the other overload, but writes into `sum`, which is as long as the gradient; returns the number of
/// nonzero elements. On a ring at most `window` sums, unless it is 0, wait for a late rank (gather.hpp).
std::size_t topk_dsa(transport::Transport& transport, const SparseVector& own, std::span<float> sum,
                     Gathering gathering = Gathering::ring, std::uint32_t window = 2);

/// The result of a collective that selects again.
struct Selected {
  SparseVector sum;
  /// Indexes that are both in the rank's own selection and in `sum`; the rank must not keep them for the next
  /// iteration.
  std::vector<std::uint32_t> contributed;
};

/// Whether a rank sends as soon as it can, or only when an empty message asks for it, so that at most one
/// message waits for a late rank.
enum class Sending { at_once, when_asked };

/// Selections are summed along a binary tree to rank 0; after each sum the k elements of largest magnitude go
/// on; the final selection is sent back down. With k selected on each, rank 0 sends and receives 4k ceil(log2
/// P) words, and no rank more; asking is a phase "reduce/asked". As in the paper, a contribution that a merge
/// has dropped counts as contributed if its index is selected through another branch. Memory in gradients:
/// 8k/n, including `own` and requested messages that wait, and 1/32; with `at_once` up to 2k/n ceil(log2 P)
/// more may wait.
Selected gtopk(transport::Transport& transport, SparseVector own, std::size_t elements, std::size_t k,
               Sending sending = Sending::at_once);

}  // namespace sparse
