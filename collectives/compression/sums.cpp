#include "collectives/compression/sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/select.hpp"

namespace compression {
namespace {

float or_zero(float x) { return only_if(is_finite(x), x); }

std::size_t count_not_finite(std::span<const float> x) {
  return count_at_least(x, std::numeric_limits<float>::infinity());
}

}  // namespace

Magnitudes magnitudes(std::span<const float> x) {
  const std::size_t not_finite = count_not_finite(x);
  if (not_finite == x.size()) return {.not_finite = not_finite};
  std::uint32_t greatest = 0;
  for (const float each : x) greatest = std::max(greatest, magnitude(or_zero(each)));
  const double sum = sum_of(x, [](float each) { return std::abs(static_cast<double>(or_zero(each))); });
  // The mean of equal values may be rounded above them.
  const auto max = std::bit_cast<float>(greatest);
  return {.mean = std::min(sum / static_cast<double>(x.size() - not_finite), static_cast<double>(max)),
          .greatest = max,
          .not_finite = not_finite};
}

Moments moments(std::span<const float> x) {
  const std::size_t not_finite = count_not_finite(x);
  if (not_finite == x.size()) return {};
  const auto count = static_cast<double>(x.size() - not_finite);
  const double mean = sum_of(x, [](float each) { return static_cast<double>(or_zero(each)); }) / count;
  const double squares = sum_of(x, [](float each) {
    const auto value = static_cast<double>(or_zero(each));
    return value * value;
  });
  return {.mean = mean, .deviation = std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

}  // namespace compression
