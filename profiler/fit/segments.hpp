// Finds ranges of sizes with a straight line each, because times jump and slopes change when protocols
// switch. Dynamic programming over all cuts, with a penalty for each.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "profiler/fit/rows.hpp"

namespace fit {

struct SegmentOptions {
  /// The minimum gain of another segment, in squared standard deviations of the measurements' noise and per
  /// natural logarithm of the number of sizes. The usual information criterion takes 3, one per parameter;
  /// but the noise of neighbouring sizes is correlated, so more is needed.
  double penalty = 20;
  std::size_t min_sizes = 3;  ///< in a segment
};

struct Segment {
  double from_bytes = 0;
  double to_bytes = 0;  ///< exclusive: the first measured size of the next segment
  std::size_t choice = 0;
  Line line;
};

/// `choices` hold the same measurements in the same order, sorted by size, each with the coefficients of
/// another algorithm; every segment uses the one that fits it best. `noise` is a relative standard deviation.
std::vector<Segment> find_segments(std::span<const std::vector<Row>> choices, double noise,
                                   const SegmentOptions& options);

/// Returns the relative standard deviation of measurements about the straight lines between their neighbours:
/// robust against jumps, and at least 0.5 %, because protocols do not depend on anything finer.
double noise(const std::vector<Row>& rows);

}  // namespace fit
