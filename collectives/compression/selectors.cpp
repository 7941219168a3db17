// Thresholds are compared as magnitude(): integers, in which NaN and infinities have a defined order.

#include "collectives/compression/selectors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "collectives/compression/keep.hpp"
#include "collectives/compression/sums.hpp"
#include "collectives/compression/trials.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

void keep(SparseVector& kept, std::span<const float> x, std::uint32_t i) {
  kept.indexes.push_back(i);
  kept.values.push_back(x[i]);
}

/// Returns the magnitude() of the smallest float >= threshold.
std::uint32_t round_up(double threshold) {
  const auto nearest = static_cast<float>(threshold);
  return magnitude(nearest) + (static_cast<double>(nearest) < threshold ? 1 : 0);
}

/// Elements that reach `surely` are kept, those that do not reach `maybe` are not.
struct Bracket {
  std::uint32_t surely = magnitude(std::numeric_limits<float>::infinity());
  std::uint32_t maybe = 0;
};

/// Lines 4 to 24 of the algorithm. At most k elements reach a threshold if and only if the (k + 1)-th largest
/// does not, so one selection replaces one counting pass per sampling.
Bracket bisect(const Magnitudes& of, std::uint32_t next_greatest, int samplings) {
  Bracket bracket;
  double low = 0;
  double high = 1;
  for (int i = 0; i < samplings; ++i) {
    const double ratio = low + (high - low) / 2;
    const std::uint32_t threshold = round_up(of.mean + ratio * (static_cast<double>(of.greatest) - of.mean));
    const bool at_most_k = next_greatest < threshold;
    (at_most_k ? high : low) = ratio;
    (at_most_k ? bracket.surely : bracket.maybe) = threshold;
  }
  return bracket;
}

/// Lines 25 to 29.
SparseVector keep_bracket(std::span<const float> x, std::size_t k, const Bracket& bracket,
                          std::uint64_t seed) {
  std::size_t surely = 0;
  std::size_t maybe = 0;
  for_each_at_least(x, bracket.maybe,
                    [&](std::uint32_t i) { ++(magnitude(x[i]) >= bracket.surely ? surely : maybe); });
  const std::size_t wanted = k - surely;
  const std::size_t from = sim::hash(seed) % (maybe - wanted + 1);
  SparseVector kept;
  kept.indexes.reserve(k);
  kept.values.reserve(k);
  std::size_t seen = 0;
  for_each_at_least(x, bracket.maybe, [&](std::uint32_t i) {
    // By wrap-around, the second difference is at least `wanted` before the window.
    if (magnitude(x[i]) >= bracket.surely || seen++ - from < wanted) keep(kept, x, i);
  });
  return kept;
}

bool is_more(std::size_t count, std::size_t k, std::size_t quarters) { return 4 * count > quarters * k; }

/// Estimates from a sample the magnitude that about k elements of x reach.
float sampled_threshold(std::span<const float> x, std::size_t k, std::size_t samples, std::uint64_t seed) {
  std::vector<float> sample(samples);
  for (std::size_t i = 0; i < samples; ++i) sample[i] = x[sim::hash(seed, i) % x.size()];
  const double share = static_cast<double>(k) / static_cast<double>(x.size());
  const auto rank = static_cast<std::size_t>(std::llround(share * static_cast<double>(samples)));
  return kth_magnitude(sample, std::max<std::size_t>(rank, 1));
}

}  // namespace

SparseVector mstopk(std::span<const float> x, std::size_t k, std::uint64_t seed, int samplings) {
  const Magnitudes of = magnitudes(x);
  if (k == 0 || k >= x.size() || of.not_finite >= k) return top_k(x, k);
  return keep_bracket(x, k, bisect(of, magnitude(kth_magnitude(x, k + 1)), samplings), seed);
}

SparseVector dgc(std::span<const float> x, std::size_t k, std::uint64_t seed) {
  constexpr std::size_t kMinSamples = 512;
  const std::size_t samples = std::max(kMinSamples, x.size() / 100);
  if (k == 0 || k >= x.size() || samples >= x.size()) return top_k(x, k);
  const float threshold = sampled_threshold(x, k, samples, seed);
  // If too many elements were selected, the k largest of them are the k largest of all.
  return is_more(count_at_least(x, threshold), k, 5) ? top_k(x, k) : at_least(x, threshold);
}

SparseVector random_k(std::span<const float> x, std::size_t k, std::uint64_t seed) {
  expect_indexable(x);
  if (k == 0 || k >= x.size()) return top_k(x, k);
  constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> sampled((x.size() + kBits - 1) / kBits);
  // Floyd's sampling (Bentley and Floyd 1987): one random number per selected element.
  for (std::size_t last = x.size() - k; last < x.size(); ++last) {
    const std::size_t i = sim::hash(seed, last) % (last + 1);
    const bool again = (sampled[i / kBits] >> i % kBits & 1U) != 0;
    const std::size_t taken = again ? last : i;
    sampled[taken / kBits] |= std::uint64_t{1} << taken % kBits;
  }
  SparseVector kept;
  kept.indexes.reserve(k);
  kept.values.reserve(k);
  for (std::size_t word = 0; word < sampled.size(); ++word)
    for (std::uint64_t rest = sampled[word]; rest != 0; rest &= rest - 1)
      keep(kept, x,
           static_cast<std::uint32_t>(word * kBits + static_cast<std::size_t>(std::countr_zero(rest))));
  return kept;
}

SparseVector gaussian_k(std::span<const float> x, std::size_t k) {
  if (k == 0 || k >= x.size()) return top_k(x, k);
  const Moments of = moments(x);
  const std::optional<float> threshold =
      adjusted_threshold(k, normal_threshold(of.mean, of.deviation, k, x.size()),
                         [&](float trial) { return count_at_least(x, trial); });
  return threshold ? at_least(x, *threshold) : top_k(x, k);
}

SparseVector reuse_threshold(std::span<const float> x, std::size_t k, ReusedThreshold& state) {
  if (state.recompute_every == 0) throw std::invalid_argument("expected recompute_every >= 1, got 0");
  const bool is_due = state.calls++ % state.recompute_every == 0;
  if (k == 0 || k >= x.size()) return top_k(x, k);
  const auto reaches_too_many = [&] { return count_at_least(x, state.threshold) > 2 * k; };
  if (is_due || !is_finite(state.threshold) || reaches_too_many()) state.threshold = kth_magnitude(x, k);
  return reaches_too_many() ? top_k(x, k) : at_least(x, state.threshold);
}

}  // namespace compression
