// The exact planner of one channel whose cost of a group is a curve of straight pieces that never falls. It
// needs about one step for each gradient and piece, where the Pareto engine looks at all pairs of cuts.

#pragma once

#include <cstdint>
#include <vector>

#include "core/cost_curve.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// A channel that carries groups one after another, each when its last gradient is ready. A group of M bytes
/// takes curve.us(wire * M), rounded as by sim::from_us(). Requires a curve that is_monotone() and at least
/// one gradient; curve and bytes must outlive this object.
struct StraightChannel {
  std::vector<sim::Time> ready;                   ///< by gradient; never falls
  const std::vector<std::int64_t>& bytes_before;  ///< by cut; grows
  const core::CostCurve& curve;
  double wire = 1;

  std::uint32_t count() const { return static_cast<std::uint32_t>(ready.size()); }
  double wire_bytes(std::uint32_t begin, std::uint32_t end) const {
    return wire * static_cast<double>(bytes_before[end] - bytes_before[begin]);
  }
  sim::Time time(std::uint32_t begin, std::uint32_t end) const {
    return sim::from_us(curve.us(wire_bytes(begin, end)));
  }
};

/// Returns, for each cut, the earliest time at which the gradients before it can all have been carried.
std::vector<sim::Time> earliest_ends(const StraightChannel& channel);

/// Returns, for each cut, the latest time at which the channel may be free there if all is to be carried by
/// `by`, with any number of groups; Time::min() where even the earliest end is too late.
std::vector<sim::Time> latest_starts(const StraightChannel& channel, const std::vector<sim::Time>& ends,
                                     sim::Time by);

/// Returns the grouping that ends at `by` or before with the fewest groups and, among these, the fewest
/// gradients in the first group; after the first group, each group begins where the channel may be busy for
/// longest before it, among equals with the most gradients, as the Pareto engine has it. `ends` is what
/// earliest_ends() returns; requires ends.back() <= by.
Groups simplest_groups(const StraightChannel& channel, const std::vector<sim::Time>& ends, sim::Time by);

}  // namespace planner
