// Algorithm 1 of the Cupcake paper: the search for the grouping that ends soonest when every group is
// compressed before it is sent. Kept to compare with; optimal.hpp finds what it finds in polynomial time.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// What the paper's model knows: one compute stream, which runs backward and compresses each group as soon as
/// its last gradient is there, and one channel. Decoding has no place of its own.
struct CupcakeInstance {
  std::uint32_t count = 0;       ///< gradients, in backward order; at least one
  std::vector<sim::Time> ready;  ///< when backward, without compression, yields each; not falling
  sim::Time backward_end{};      ///< without compression; no sooner than the last is ready
  /// The paper's h: compression of gradients begin to end - 1 as one group; delays the rest of backward.
  std::function<sim::Time(std::uint32_t begin, std::uint32_t end)> encode;
  /// The paper's g: their time on the channel.
  std::function<sim::Time(std::uint32_t begin, std::uint32_t end)> communicate;
};

/// The paper proves the result optimal for costs of the form startup + slope * bytes, and for those it is.
/// In general:
///
/// * Without either pruning it is the best of all groupings, whatever the costs.
/// * Pruning by outcome loses nothing while, of each cost, merging neighbours never costs more than they cost
///   apart. A floor under the cost is no harm.
/// * Pruning by first group needs more: of two neighbours the earlier may take gradients of the later without
///   raising the sum of their costs, of either cost, or what the later takes on the channel. With a floor,
///   such as the paper itself measures, that does not hold.
struct CupcakeOptions {
  bool prune_by_outcome = true;  ///< pruning 1: skip what cannot end sooner than the best found so far
  bool prune_by_first_group =
      true;                       ///< pruning 2: a group takes all that is ready before the channel is free
  bool start_with_halves = true;  ///< the first to beat: two groups of as many gradients each
  std::uint64_t max_nodes = std::numeric_limits<std::uint64_t>::max();
  double time_limit_s = std::numeric_limits<double>::infinity();
};

struct CupcakeResult {
  Groups groups;            ///< the best found: none if the search ended before it found any
  sim::Time end{};          ///< of compute and of the channel, since backward began
  std::uint64_t nodes = 0;  ///< beginnings looked at: calls of the paper's FindOptFusion
  bool finished = false;    ///< whether neither limit ended the search
};

/// Exponential in the worst case.
CupcakeResult cupcake(const CupcakeInstance& instance, const CupcakeOptions& options);

}  // namespace planner
