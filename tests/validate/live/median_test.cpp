// The 95 % interval of a median: against enumerated probabilities, and by how often it contains the median of
// a known distribution.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "validate/live/compare.hpp"

namespace {

/// The probability that at most `rank` (from 0) values are below the median, so that the value of that rank
/// is above it; enumerates all equally likely cases.
double chance_above(unsigned count, unsigned rank) {
  std::uint32_t transfers = 0;
  for (std::uint32_t below = 0; below < 1U << count; ++below)
    if (std::popcount(below) <= static_cast<int>(rank)) ++transfers;
  return transfers / std::pow(2.0, count);
}

/// The values 0, 1, 2, ...: each value is its own rank.
live::Median median_of_ranks(std::size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 0);
  return live::median_of(values);
}

TEST_CASE("live median: the interval is the narrowest of order statistics that leaves 2.5 % on each side") {
  for (unsigned count = 1; count <= 18; ++count) {
    CAPTURE(count);
    unsigned rank = 0;
    while (2 * (rank + 1) < count && chance_above(count, rank + 1) <= 0.025) ++rank;
    const live::Median found = median_of_ranks(count);
    CHECK(found.min == rank);
    CHECK(found.max == count - 1 - rank);
    CHECK((count < 6) == (chance_above(count, 0) > 0.025));  // with fewer than six values, the full range
                                                             // covers less than 95 %
  }
}

TEST_CASE("live median: of very many values the interval is as that of the normal distribution") {
  for (const std::size_t count : {100U, 1'000U, 1'100U, 5'000U, 200'000U}) {
    CAPTURE(count);
    const auto n = static_cast<double>(count);
    const live::Median found = median_of_ranks(count);
    CHECK(found.value == (n - 1) / 2);
    CHECK(std::abs(found.min - (n / 2 - 1.959964 * std::sqrt(n) / 2)) < 2);
    CHECK(found.max == n - 1 - found.min);
  }
}

/// The share of intervals, each from `count` samples, that contain the distribution's median.
template <typename Draw>
double coverage(std::size_t count, double median, Draw draw) {
  constexpr int kIntervals = 20'000;
  int holds = 0;
  std::vector<double> values(count);
  for (int i = 0; i < kIntervals; ++i) {
    std::ranges::generate(values, draw);
    const live::Median found = live::median_of(values);
    if (found.min <= median && median <= found.max) ++holds;
  }
  return static_cast<double>(holds) / kIntervals;
}

TEST_CASE("live median: 95 of 100 intervals or some more hold the median, whatever is drawn") {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> skewed(1);
  std::lognormal_distribution<double> wide(0, 2);
  // 20000 intervals: a standard deviation of 0.15 %
  for (const std::size_t count : {6U, 9U, 20U, 23U, 60U}) {
    CAPTURE(count);
    const auto rank = static_cast<std::size_t>(median_of_ranks(count).min);
    double outside = 0;  // probability outside on either side, by Pascal's triangle
    double transfers = 1;
    for (std::size_t k = 0; k <= rank; ++k) {
      outside += 2 * transfers * std::pow(0.5, count);
      transfers = transfers * static_cast<double>(count - k) / static_cast<double>(k + 1);
    }
    CHECK(outside <= 0.05);
    for (const double covered : {coverage(count, std::log(2.0), [&] { return skewed(random); }),
                                 coverage(count, 1, [&] { return wide(random); })}) {
      CHECK(covered >= 0.945);
      CHECK(std::abs(covered - (1 - outside)) < 0.008);  // five standard deviations
    }
  }
}

}  // namespace
