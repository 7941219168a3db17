#include "collectives/compression/trials.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sim/draws.hpp"

namespace compression {
namespace {

/// Returns the z that |normal variate| exceeds with probability `part`.
double normal_beyond(double part) { return -sim::standard_normal(static_cast<std::uint64_t>(part * 0x1p63)); }

}  // namespace

float normal_threshold(double mean, double deviation, std::size_t k, std::size_t n) {
  const double beyond = normal_beyond(static_cast<double>(k) / static_cast<double>(n));
  const double max = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(mean + beyond * deviation, 0.0, max));
}

std::optional<float> adjusted_threshold(std::size_t k, float first,
                                        const std::function<std::size_t(float)>& reaching) {
  constexpr int kTrials = 40;
  std::optional<float> low;
  std::optional<float> high;
  float threshold = first;
  for (int i = 0; i < kTrials; ++i) {
    const std::size_t count = reaching(threshold);
    const bool too_many = 4 * count > 5 * k;
    if (!too_many && 4 * count >= 3 * k) return threshold;
    (too_many ? low : high) = threshold;
    const float next = low && high ? *low + (*high - *low) / 2 : threshold * (too_many ? 1.5F : 0.5F);
    if (next == threshold || next == low || next == high) return std::nullopt;
    threshold = next;
  }
  return std::nullopt;
}

}  // namespace compression
