// Algorithm 1 of the Cupcake paper: searches for the grouping with the earliest end if every group is
// compressed before it is sent. Kept as a reference; pareto.hpp finds the same result in polynomial time.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// The inputs of the paper's model: one compute stream, which runs backward and compresses each group as soon
/// as its last gradient is ready, and one channel. The model ignores decoding.
struct CupcakeInstance {
  std::uint32_t count = 0;       ///< gradients, in backward order; at least one
  std::vector<sim::Time> ready;  ///< when backward, without compression, yields each gradient; ascending
  sim::Time backward_end{};      ///< without compression; at or after the last ready time
  /// The paper's h: time to compress gradients begin to end - 1 as one group; delays the rest of backward.
  std::function<sim::Time(std::uint32_t begin, std::uint32_t end)> encode;
  /// The paper's g: time of that group on the channel.
  std::function<sim::Time(std::uint32_t begin, std::uint32_t end)> communicate;
};

/// The paper proves the result optimal for costs of the form startup + slope * bytes. In general:
///
/// * Without pruning, the result is the best of all groupings for any costs.
/// * Pruning by outcome is exact if, for each cost, merging neighbours never costs more than both separately.
///   A minimum cost (floor) does not violate this.
/// * Pruning by first group requires more: if the earlier of two neighbours takes over gradients of the later
///   one, neither the sum of their costs, for each cost, nor the later group's time on the channel may rise.
///   This fails with a floor, such as the paper itself measures.
struct CupcakeOptions {
  bool prune_by_outcome = true;  ///< pruning 1: skip branches that cannot end earlier than the best found so
                                 ///< far
  bool prune_by_first_group = true;  ///< pruning 2: a group takes every gradient that is ready before the
                                     ///< channel is free
  bool start_with_halves = true;     ///< initial incumbent: two groups with equally many gradients
  std::uint64_t max_nodes = std::numeric_limits<std::uint64_t>::max();
  double time_limit_s = std::numeric_limits<double>::infinity();
};

struct CupcakeResult {
  Groups groups;            ///< the best grouping found; empty if the search stopped before it found one
  sim::Time end{};          ///< end of compute and channel, since backward began
  std::uint64_t nodes = 0;  ///< prefixes examined: calls of the paper's FindOptFusion
  bool finished = false;    ///< whether the search ended before either limit
};

/// Takes exponential time in the worst case.
CupcakeResult cupcake(const CupcakeInstance& instance, const CupcakeOptions& options);

}  // namespace planner
