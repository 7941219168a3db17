// Ok-Topk's sparse all-reduce (Li and Hoefler, PPoPP 2022, Algorithm 1): the k greatest of the sum of all
// ranks' k greatest, with a volume that does not grow with the number of ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse/collectives.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// The same on all ranks.
struct OkTopkOptions {
  std::size_t k = 0;
  std::uint64_t repartition_every = 64;  ///< calls, as the next
  std::uint64_t recompute_every = 32;
  std::uint32_t bucket = 4;  ///< messages that are on their way at once
  std::size_t balance_beyond =
      4;  ///< times the mean share: where the largest is beyond, shares are evened out
  /// So that no more messages wait for a late rank than a bucket: in split each is asked for by one without
  /// content (phase "split/asked"), and shares over an eighth of a gradient are gathered on a ring, two at a
  /// time. As many words.
  bool asks_first = false;
};

/// What a rank keeps from call to call. Starts empty, and starts anew by itself when the number of elements
/// or ranks or k has changed (on all ranks alike).
struct OkTopkState {
  std::uint64_t calls = 0;
  float local_threshold = 0;
  float global_threshold = 0;
  std::vector<std::size_t>
      boundaries;     ///< P+1, from 0 to the number of elements; region r is rank r's to sum
  std::size_t k = 0;  ///< of the last call
};

/// Which messages a call has besides those of any: the phases are "boundaries", "split", "sizes",
/// "recompute", "balance" and "gather".
///
/// In calls 0, recompute_every, 2 recompute_every, ... the result is exact: of the sum of each rank's min(k,
/// n) elements of greatest magnitude (of equals the lowest indexes), the k of greatest magnitude, chosen
/// alike. All sums are gathered for it, and the thresholds kept. In other calls what reaches the kept
/// thresholds is taken, on each rank and of the sums; zeros never are. Regions are made from the distribution
/// of what is selected in calls 0, repartition_every, ...
///
/// Words received, with L the rank's own selections, R its region, G the number of elements in the result, S
/// the rank's share of them (after balancing S = G/P, rounded up or down):
///   split     2 x what the other ranks select in R; 2k (P-1)/P where boundaries balance it
///   sizes     P-1
///   gather    2(G - S)
///   balance   at most 2 ceil(G/P); 2G (P-1)/P sent at most
///   recompute instead of the last two: 2 x what the other ranks' sums have
///   boundaries at most 4P where regions are made
/// NaN counts as the greatest magnitude and infinity as the next, so they travel. A region's elements are
/// summed from its own rank downwards. Memory in gradients: one to sum, of which only the touched pages
/// count, and a sixteenth; where thresholds are recomputed half a one to select.
Selected ok_topk(transport::Transport& transport, std::span<const float> gradient,
                 const OkTopkOptions& options, OkTopkState& state);

/// How many elements were selected: by this rank, and in the sum.
struct OkTopkCounts {
  std::size_t local = 0;
  std::size_t global = 0;
};

/// The same in place: in `left`, the gradient, what has contributed becomes 0, and `sum`, as long, is
/// overwritten.
OkTopkCounts ok_topk(transport::Transport& transport, std::span<float> left, std::span<float> sum,
                     const OkTopkOptions& options, OkTopkState& state);

}  // namespace sparse
