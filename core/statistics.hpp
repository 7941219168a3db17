// Statistics of repeated measurements: median, spread, 99th percentile.

#pragma once

#include <cstddef>
#include <vector>

namespace core {

struct Statistics {
  double median = 0;
  double spread = 0;  ///< interquartile range
  double p99 = 0;     ///< nearest rank
  double min = 0;
};

/// Needs at least one sample.
Statistics statistics(std::vector<double> samples);

/// Interpolates between the two nearest ranks. `share` is from 0 to 1; needs at least one sample.
double quantile(std::vector<double> samples, double share);

/// The index, in `count` sorted samples, of the smallest one that at least `percent` per cent do not exceed.
constexpr std::size_t nearest_rank(std::size_t count, std::size_t percent) {
  return (percent * count + 99) / 100 - 1;
}

}  // namespace core
