// Statistics of repeated measurements: median, spread, 99th percentile.

#pragma once

#include <vector>

namespace profiler {

struct SampleSummary {
  double median = 0;
  double spread = 0;  ///< interquartile range
  double p99 = 0;     ///< nearest rank
};

/// Interpolates linearly between the two nearest ranks; `share` is from 0 to 1. Requires at least one value.
double quantile(std::vector<double> values, double share);

/// Requires at least one value.
SampleSummary summary(const std::vector<double>& values);

}  // namespace profiler
