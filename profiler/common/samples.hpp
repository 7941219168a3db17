// What repeated measurements of the same thing say: the middle, how far they spread, the worst.

#pragma once

#include <vector>

namespace profiler {

struct SampleSummary {
  double median = 0;
  double spread = 0;  ///< interquartile range
  double p99 = 0;     ///< nearest rank
};

/// Between the two nearest ranks where it falls between; `share` from 0 to 1, of at least one value.
double quantile(std::vector<double> values, double share);

/// Of at least one value.
SampleSummary summary(const std::vector<double>& values);

}  // namespace profiler
