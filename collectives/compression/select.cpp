// Finds the k-th largest element of a large vector among the few elements above a floor estimated from a
// sample, in one pass. If the sample misleads, or much is kept, counts digits of the bits instead (radix
// selection).

#include "collectives/compression/select.hpp"

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "collectives/compression/keep.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

/// A digit of a magnitude; from the top they have 11, 10 and 10 bits.
struct Digit {
  unsigned shift;
  unsigned bits;

  std::uint32_t of(std::uint32_t key) const { return (key >> shift) & ((1U << bits) - 1); }
  /// Returns the bits above the digit.
  std::uint32_t prefix(std::uint32_t key) const { return key >> shift >> bits; }
};
constexpr std::array<Digit, 3> kDigits = {{{20, 11}, {10, 10}, {0, 10}}};

using Counts = std::array<std::size_t, std::size_t{1} << 11U>;

/// Counts each digit among the elements that share the higher bits of `key`. Two tables are used because an
/// increment waits for the previous one at the same place.
Counts count_digits(std::span<const float> x, Digit digit, std::uint32_t key) {
  std::array<Counts, 2> counts{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t bits = magnitude(x[i]);
    if (digit.prefix(bits) == digit.prefix(key)) ++counts[i % 2][digit.of(bits)];
  }
  for (std::size_t i = 0; i < counts[0].size(); ++i) counts[0][i] += counts[1][i];
  return counts[0];
}

std::uint32_t kth_by_digits(std::span<const float> x, std::size_t k) {
  std::uint32_t key = 0;
  for (const Digit& digit : kDigits) {
    const Counts counts = count_digits(x, digit, key);
    std::uint32_t at = (1U << digit.bits) - 1;
    for (; counts[at] < k; --at) k -= counts[at];
    key |= at << digit.shift;
  }
  return key;
}

constexpr std::size_t kSamples = 1U << 14U;

/// Estimates a magnitude that slightly more than k elements reach, from elements sampled with replacement.
std::uint32_t suggest_floor(std::span<const float> x, std::size_t k) {
  std::vector<std::uint32_t> sample(kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) sample[i] = magnitude(x[sim::hash(0, i) % x.size()]);
  const std::size_t expected = k * kSamples / x.size();
  // 4 standard deviations at 1 in 1000.
  const auto rank = static_cast<std::ptrdiff_t>(expected + expected / 4 + 16);
  std::nth_element(sample.begin(), sample.begin() + rank, sample.end(), std::greater<>());
  return sample[static_cast<std::size_t>(rank)];
}

/// Returns the k-th largest among the elements above an estimated floor; nothing if too few or too many are
/// above.
std::optional<std::uint32_t> kth_by_floor(std::span<const float> x, std::size_t k) {
  const std::size_t max = x.size() / 4;
  std::vector<std::uint32_t> above;
  std::size_t count = 0;
  for_each_at_least(x, suggest_floor(x, k), [&](std::uint32_t i) {
    if (count++ < max) above.push_back(magnitude(x[i]));
  });
  if (count < k || count > max) return std::nullopt;
  const auto kth = above.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(above.begin(), kth, above.end(), std::greater<>());
  return *kth;
}

/// Requires 1 <= k <= x.size().
std::uint32_t kth_key(std::span<const float> x, std::size_t k) {
  constexpr std::size_t kLarge = 4 * kSamples;
  if (x.size() >= kLarge && k <= x.size() / 16)
    if (const std::optional<std::uint32_t> key = kth_by_floor(x, k)) return *key;
  return kth_by_digits(x, k);
}

}  // namespace

void expect_indexable(std::span<const float> x) {
  if (x.size() > std::size_t{1} + std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("expected at most 2^32 elements");
}

SparseVector top_k(std::span<const float> x, std::size_t k) {
  expect_indexable(x);
  k = std::min(k, x.size());
  SparseVector kept;
  if (k == 0) return kept;
  const std::uint32_t min = kth_key(x, k);
  std::size_t greater = 0;
  for_each_at_least(x, min + 1, [&](std::uint32_t) { ++greater; });
  std::size_t equals_left = k - greater;
  kept.indexes.reserve(k);
  kept.values.reserve(k);
  for_each_at_least(x, min, [&](std::uint32_t i) {
    if (magnitude(x[i]) == min) {
      if (equals_left == 0) return;
      --equals_left;
    }
    kept.indexes.push_back(i);
    kept.values.push_back(x[i]);
  });
  return kept;
}

float kth_magnitude(std::span<const float> x, std::size_t k) {
  expect_indexable(x);
  if (k == 0) throw std::invalid_argument("expected k >= 1, got 0");
  return x.empty() ? 0 : std::bit_cast<float>(kth_key(x, std::min(k, x.size())));
}

SparseVector at_least(std::span<const float> x, float threshold) {
  expect_indexable(x);
  SparseVector kept;
  for_each_at_least(x, min_magnitude(threshold), [&](std::uint32_t i) {
    kept.indexes.push_back(i);
    kept.values.push_back(x[i]);
  });
  return kept;
}

std::size_t count_at_least(std::span<const float> x, float threshold) {
  std::size_t count = 0;
  for_each_at_least(x, min_magnitude(threshold), [&](std::uint32_t) { ++count; });
  return count;
}

}  // namespace compression
