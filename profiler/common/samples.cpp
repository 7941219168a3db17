#include "profiler/common/samples.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>

namespace profiler {
namespace {

double quantile_of_sorted(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  assert(!values.empty() && share >= 0 && share <= 1);
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, share);
}

SampleSummary summary(const std::vector<double>& values) {
  assert(!values.empty());
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
  return {.median = quantile_of_sorted(sorted, 0.5),
          .spread = quantile_of_sorted(sorted, 0.75) - quantile_of_sorted(sorted, 0.25),
          .p99 = sorted[rank - 1]};
}

}  // namespace profiler
