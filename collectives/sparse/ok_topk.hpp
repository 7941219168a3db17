// Ok-Topk's sparse all-reduce (Li and Hoefler, PPoPP 2022, Algorithm 1): the k largest of the sum of all
// ranks' k largest elements, with a volume that does not grow with the number of ranks.

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
  std::uint64_t repartition_every = 64;  ///< in calls, like the next
  std::uint64_t recompute_every = 32;
  std::uint32_t bucket = 4;  ///< messages in transit at the same time
  std::size_t balance_beyond =
      4;  ///< if the largest share exceeds this multiple of the mean share, shares are balanced
  /// Limits the messages that wait for a late rank to one bucket: in "split" each message is requested by an
  /// empty one (phase "split/asked"), and shares over an eighth of a gradient are gathered on a ring, two at
  /// a time. The number of words is the same.
  bool asks_first = false;
};

/// The state of a rank between calls. Starts empty, and is reset automatically when the number of elements or
/// ranks or k changes (the same on all ranks).
struct OkTopkState {
  std::uint64_t calls = 0;
  float local_threshold = 0;
  float global_threshold = 0;
  std::vector<std::size_t>
      boundaries;     ///< P+1 values, from 0 to the number of elements; rank r sums region r
  std::size_t k = 0;  ///< of the last call
};

/// The phases are "boundaries", "split", "sizes", "recompute", "balance" and "gather"; not every call has all
/// of them.
///
/// In calls 0, recompute_every, 2 recompute_every, ... the result is exact: the k elements of largest
/// magnitude of the sum of each rank's min(k, n) elements of largest magnitude (ties go to the lowest
/// indexes). All sums are gathered for it, and the thresholds are kept. In other calls the elements and sums
/// that reach the kept thresholds are selected, except zeros. Regions are derived from the distribution of
/// the selected elements in calls 0, repartition_every, ...
///
/// Words received, where L is the rank's own selection, R its region, G the number of elements in the result,
/// S the rank's share of them (after balancing S = G/P, rounded up or down):
///   split     2 x the other ranks' selected elements in R; 2k (P-1)/P if boundaries balance it
///   sizes     P-1
///   gather    2(G - S)
///   balance   at most 2 ceil(G/P); at most 2G (P-1)/P sent
///   recompute instead of the last two: 2 x the elements of the other ranks' sums
///   boundaries at most 4P when regions are derived
/// NaN counts as the largest magnitude and infinity as the next, so they are sent. A region's elements are
/// summed from its own rank downwards. Memory in gradients: one to sum, of which only the touched pages
/// count, and a sixteenth; when thresholds are recomputed half a gradient to select.
Selected ok_topk(transport::Transport& transport, std::span<const float> gradient,
                 const OkTopkOptions& options, OkTopkState& state);

/// The number of selected elements: by this rank, and in the sum.
struct OkTopkCounts {
  std::size_t local = 0;
  std::size_t global = 0;
};

/// Works in place: sets the contributed elements of `left`, the gradient, to 0, and overwrites `sum`, which
/// has the same length.
OkTopkCounts ok_topk(transport::Transport& transport, std::span<float> left, std::span<float> sum,
                     const OkTopkOptions& options, OkTopkState& state);

}  // namespace sparse
