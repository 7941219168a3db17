// Where protocols switch, times jump and slopes change: ranges of sizes with a straight line each, found by
// dynamic programming over all places to cut, with a penalty for each cut.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "profiler/fit/rows.hpp"

namespace fit {

struct SegmentOptions {
  /// What another segment has to save, in squared standard deviations of the measurements' noise and per
  /// natural logarithm of the number of sizes: the usual information criterion takes 3, one for each of its
  /// numbers, but noise of neighbouring sizes is alike, so that it has to be more.
  double penalty = 20;
  std::size_t min_sizes = 3;  ///< in a segment
};

struct Segment {
  double from_bytes = 0;
  double to_bytes = 0;  ///< exclusive: the first size of the next, as far as sizes were measured
  std::size_t choice = 0;
  Line line;
};

/// `choices` hold the same measurements in the same order, by growing size, each as another algorithm would
/// pay for them; every segment takes the one that suits it best. `noise` is a relative standard deviation.
std::vector<Segment> find_segments(std::span<const std::vector<Row>> choices, double noise,
                                   const SegmentOptions& options);

/// The relative standard deviation of measurements about the straight lines between their neighbours: robust
/// against jumps; at least 0.5 %: what is finer is no matter of protocols.
double noise(const std::vector<Row>& rows);

}  // namespace fit
