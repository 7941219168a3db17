// The exact planner of two channels that carry the same groups one after the other, as reduce-scatters and
// all-gathers do, where the cost of a group on each is a curve of straight pieces that never falls.

#pragma once

#include <array>
#include <functional>
#include <optional>

#include "planner/choose/pareto.hpp"
#include "planner/choose/straight_channel.hpp"

namespace planner {

/// When each channel is free, of its own clock.
using ChannelEnds = std::array<sim::Time, 2>;

/// What the ends of both channels make of an iteration. All functions never fall.
struct TwoChannels {
  std::array<StraightChannel, 2> channels;  ///< with the same bytes
  std::function<sim::Time(const ChannelEnds&)> value;
  /// The latest end of each channel in an iteration of this value, if these are the earliest.
  std::function<ChannelEnds(const ChannelEnds&, sim::Time)> latest;
  /// The latest ends that are worth as much on each channel.
  std::function<ChannelEnds(const ChannelEnds&)> as_good;
};

/// The groups that the Pareto engine finds, with far fewer steps. None where two groups may take less time
/// than one on a channel, or where a cut would have to keep more than `max_kept` prefixes.
std::optional<OptimalGroups> optimal_groups(const TwoChannels& given, std::size_t max_kept);

}  // namespace planner
