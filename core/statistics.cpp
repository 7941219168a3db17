#include "core/statistics.hpp"

#include <algorithm>
#include <cassert>

namespace core {
namespace {

double quantile_of_sorted(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Statistics statistics(std::vector<double> samples) {
  assert(!samples.empty());
  std::ranges::sort(samples);
  return {.median = quantile_of_sorted(samples, 0.5),
          .spread = quantile_of_sorted(samples, 0.75) - quantile_of_sorted(samples, 0.25),
          .p99 = samples[nearest_rank(samples.size(), 99)],
          .min = samples.front()};
}

double quantile(std::vector<double> samples, double share) {
  assert(!samples.empty() && share >= 0 && share <= 1);
  std::ranges::sort(samples);
  return quantile_of_sorted(samples, share);
}

}  // namespace core
