// Approximate selections, each compared with a direct implementation of its algorithm.

#include "collectives/compression/selectors.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "collectives/compression/sums.hpp"
#include "tests/collectives/compression/vectors.hpp"

namespace compression {
namespace {

using support::kInfinity;
using support::kNan;
using support::Random;

double size_of(float x) { return std::isnan(x) ? kInfinity : std::abs(static_cast<double>(x)); }

SparseVector kept_at(std::span<const float> x, const std::vector<std::uint32_t>& indexes) {
  SparseVector kept = {.indexes = indexes, .values = {}};
  std::ranges::sort(kept.indexes);
  for (const std::uint32_t i : kept.indexes) kept.values.push_back(x[i]);
  return kept;
}

/// Algorithm 1 with one pass over the elements per sampling. Mean and maximum are those of the finite
/// elements, and before a threshold has been found it keeps only infinities and NaN.
SparseVector plain_mstopk(std::span<const float> x, std::size_t k, std::uint64_t seed, int samplings) {
  const auto count = [&](double threshold) {
    return static_cast<std::size_t>(
        std::ranges::count_if(x, [&](float e) { return size_of(e) >= threshold; }));
  };
  std::size_t k1 = count(kInfinity);
  if (k == 0 || k >= x.size() || k1 >= k) return top_k(x, k);
  std::size_t k2 = x.size();
  double threshold1 = kInfinity;
  double threshold2 = 0;
  const Magnitudes of = magnitudes(x);
  double low = 0;
  double high = 1;
  for (int i = 0; i < samplings; ++i) {
    const double ratio = low + (high - low) / 2;
    const double threshold = of.mean + ratio * (static_cast<double>(of.greatest) - of.mean);
    const std::size_t reaching = count(threshold);
    if (reaching <= k) {
      high = ratio;
      if (reaching > k1) {
        k1 = reaching;
        threshold1 = threshold;
      }
    } else {
      low = ratio;
      if (reaching < k2) {
        k2 = reaching;
        threshold2 = threshold;
      }
    }
  }
  std::vector<std::uint32_t> surely;
  std::vector<std::uint32_t> maybe;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    if (size_of(x[i]) >= threshold1)
      surely.push_back(i);
    else if (size_of(x[i]) >= threshold2)
      maybe.push_back(i);
  }
  const std::size_t from = sim::hash(seed) % (maybe.size() - (k - k1) + 1);
  surely.insert(surely.end(), maybe.begin() + static_cast<std::ptrdiff_t>(from),
                maybe.begin() + static_cast<std::ptrdiff_t>(from + k - k1));
  return kept_at(x, surely);
}

/// Calls check(x, k, seed) for vectors of all kinds.
void for_all_vectors(const std::function<void(std::span<const float>, std::size_t, std::uint32_t)>& check) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t kind = seed % support::kKinds;
    CAPTURE(kind);
    const std::vector<float> x = support::vector_of(random, kind, support::length_of(seed, random));
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, x.size() / 100, x.size() / 3,
                                x.size() - x.size() / 8, x.size(), x.size() + 1}) {
      CAPTURE(k);
      check(x, k, seed);
    }
  }
}

TEST_CASE("mstopk: what the paper's algorithm keeps, and exactly k") {
  for_all_vectors([](std::span<const float> x, std::size_t k, std::uint32_t seed) {
    for (const int samplings : {0, 1, 2, 5, kSamplings}) {
      CAPTURE(samplings);
      const SparseVector kept = mstopk(x, k, seed, samplings);
      REQUIRE(kept.indexes.size() == std::min(k, x.size()));
      REQUIRE(support::same(kept, plain_mstopk(x, k, seed, samplings)));
    }
  });
}

double squares(const SparseVector& kept) {
  double sum = 0;
  for (const float each : kept.values) sum += static_cast<double>(each) * static_cast<double>(each);
  return sum;
}

TEST_CASE("mstopk: with 30 samplings keeps nearly what an exact selection does, with fewer less") {
  Random random(1);
  const std::vector<float> x = support::vector_of(random, 0, 20'000);
  double few = 0;
  for (const std::size_t k : {20UL, 200UL, 2000UL}) {
    CAPTURE(k);
    const double exact = squares(top_k(x, k));
    CHECK(squares(mstopk(x, k, 1)) >= exact * (1 - 1e-6));
    few += squares(mstopk(x, k, 1, 4)) / exact / 3;
    CHECK(squares(mstopk(x, k, 1, 4)) < exact);
  }
  CHECK(few > 0.5);
}

/// A standard definition of the sampled threshold: sort the sample.
SparseVector plain_dgc(std::span<const float> x, std::size_t k, std::uint64_t seed) {
  const std::size_t samples = std::max<std::size_t>(512, x.size() / 100);
  if (k == 0 || k >= x.size() || samples >= x.size()) return top_k(x, k);
  std::vector<std::uint32_t> sample;
  for (std::size_t i = 0; i < samples; ++i) sample.push_back(magnitude(x[sim::hash(seed, i) % x.size()]));
  std::ranges::sort(sample, std::greater<>());
  const double rank =
      std::floor(static_cast<double>(k) / static_cast<double>(x.size()) * static_cast<double>(samples) + 0.5);
  const std::uint32_t threshold = sample[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  std::vector<std::uint32_t> reaching;
  for (std::uint32_t i = 0; i < x.size(); ++i)
    if (magnitude(x[i]) >= threshold) reaching.push_back(i);
  if (4 * reaching.size() <= 5 * k) return kept_at(x, reaching);
  std::vector<float> selected;
  for (const std::uint32_t i : reaching) selected.push_back(x[i]);
  std::vector<std::uint32_t> again;  // hierarchically: among those selected
  for (const std::uint32_t i : top_k(selected, k).indexes) again.push_back(reaching[i]);
  return kept_at(x, again);
}

TEST_CASE("dgc: all above a sampled threshold, or the k greatest of too many") {
  for_all_vectors([](std::span<const float> x, std::size_t k, std::uint32_t seed) {
    const SparseVector kept = dgc(x, k, seed);
    REQUIRE(support::same(kept, plain_dgc(x, k, seed)));
    REQUIRE(4 * kept.indexes.size() <= 5 * std::min(k, x.size()));
    REQUIRE((k == 0 || x.empty() || !kept.indexes.empty()));
  });
}

TEST_CASE("dgc: about k of many elements, by a sample of a hundredth") {
  Random random(1);
  const std::vector<float> x = support::vector_of(random, 1, 200'000);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SparseVector kept = dgc(x, 20'000, seed);
    CHECK(kept.indexes.size() > 17'000);
    CHECK(kept.indexes.size() < 23'000);
    CHECK(support::same(kept, plain_dgc(x, 20'000, seed)));
  }
}

TEST_CASE("random-k: exactly k, the same indexes wherever seed, k and length are the same") {
  for_all_vectors([](std::span<const float> x, std::size_t k, std::uint32_t seed) {
    const SparseVector kept = random_k(x, k, seed);
    REQUIRE(kept.indexes.size() == std::min(k, x.size()));
    REQUIRE(std::ranges::adjacent_find(kept.indexes, std::greater_equal<>()) == kept.indexes.end());
    REQUIRE(support::same(kept, kept_at(x, kept.indexes)));
    REQUIRE(random_k(std::vector<float>(x.size(), 1), k, seed).indexes == kept.indexes);
  });
}

TEST_CASE("random-k: each element and each pair as often as any other") {
  constexpr std::size_t kElements = 70;  // more than a word of bits
  constexpr std::uint64_t kSeeds = 20'000;
  const std::vector<float> x(kElements, 1);
  std::vector<int> sampled(kElements);
  std::vector<int> with_first(kElements);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const SparseVector kept = random_k(x, 7, seed);
    for (const std::uint32_t i : kept.indexes) {
      ++sampled[i];
      if (kept.indexes[0] == 0) ++with_first[i];
    }
  }
  for (std::size_t i = 0; i < kElements; ++i) {
    CAPTURE(i);
    CHECK(std::abs(sampled[i] - 2000) < 5 * 43);  // standard deviations
    if (i > 0) CHECK(std::abs(with_first[i] - 174) < 5 * 14);
  }
}

/// Checks that the elements kept are all that reach some threshold, or those of an exact selection.
void check_threshold_like(std::span<const float> x, const SparseVector& kept, std::size_t k) {
  std::uint32_t min = 0xffffffffU;
  for (const float each : kept.values) min = std::min(min, magnitude(each));
  std::vector<std::uint32_t> reaching;
  for (std::uint32_t i = 0; i < x.size(); ++i)
    if (magnitude(x[i]) >= min) reaching.push_back(i);
  REQUIRE((support::same(kept, kept_at(x, reaching)) || support::same(kept, top_k(x, k))));
}

TEST_CASE("gaussian-k: all above a threshold, from 3k/4 to 5k/4") {
  for_all_vectors([](std::span<const float> x, std::size_t k, std::uint32_t /*seed*/) {
    const SparseVector kept = gaussian_k(x, k);
    REQUIRE(4 * kept.indexes.size() >= 3 * std::min(k, x.size()));
    REQUIRE(4 * kept.indexes.size() <= 5 * std::min(k, x.size()));
    check_threshold_like(x, kept, k);
  });
}

TEST_CASE("gaussian-k: of normally distributed elements the first threshold is the one") {
  // 1,000 of 100,000 are beyond 2.5758 standard deviations; mean and deviation are those of x itself.
  Random random(3);
  std::vector<float> x = support::vector_of(random, 0, 100'000);
  for (float& each : x) each *= 1e3F;
  double mean = 0;
  for (const float each : x) mean += static_cast<double>(each) / 1e5;
  double variance = 0;
  for (const float each : x)
    variance += (static_cast<double>(each) - mean) * (static_cast<double>(each) - mean) / 1e5;
  CHECK(moments(x).mean == doctest::Approx(mean));
  CHECK(moments(x).deviation == doctest::Approx(std::sqrt(variance)));
  const double threshold = mean + 2.5758293035489 * std::sqrt(variance);
  const std::size_t count = count_at_least(x, static_cast<float>(threshold));
  CHECK(gaussian_k(x, 1000).indexes.size() == count);
  CHECK(std::abs(static_cast<double>(count) - 1000) < 200);
}

TEST_CASE("gaussian-k: tails unlike a normal distribution's need other thresholds") {
  Random random(4);
  std::vector<float> longer = support::vector_of(random, 0, 10'000);
  for (float& each : longer) each = each * each * each;
  std::vector<float> shorter(10'000);
  for (float& each : shorter) each = static_cast<float>(random.below(1U << 20U));
  for (const std::vector<float>& x : {longer, shorter}) {
    int exact = 0;
    for (std::size_t k = 100; k < 200; k += 5) {
      const std::size_t count = gaussian_k(x, k).indexes.size();
      CHECK(4 * count >= 3 * k);
      CHECK(4 * count <= 5 * k);
      if (count == k) ++exact;
    }
    CHECK(exact < 5);  // it is not an exact selection
  }
}

TEST_CASE("threshold reuse: as its definition says, call by call") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t elements = 1 + random.below(400);
    const std::size_t k = random.below(40);
    ReusedThreshold state = {.recompute_every = 1 + random.below(5)};
    const std::uint32_t every = state.recompute_every;
    float threshold = 0;
    for (std::uint32_t call = 0; call < 20; ++call) {
      CAPTURE(call);
      const std::vector<float> x = support::vector_of(random, random.below(support::kKinds), elements);
      const SparseVector kept = reuse_threshold(x, k, state);
      if (k == 0 || k >= elements) {
        REQUIRE(support::same(kept, top_k(x, k)));
        continue;
      }
      const bool is_broken = !std::isfinite(threshold);
      if (call % every == 0 || is_broken || at_least(x, threshold).indexes.size() > 2 * k)
        threshold = kth_magnitude(x, k);
      const SparseVector reaching = at_least(x, threshold);
      REQUIRE(support::same(kept, reaching.indexes.size() > 2 * k ? top_k(x, k) : reaching));
      REQUIRE(kept.indexes.size() <= 2 * k);
    }
  }
}

TEST_CASE("threshold reuse: a call in between keeps what reaches the old threshold, be it more or less") {
  ReusedThreshold state = {.recompute_every = 3};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const auto kept = [&](float scale) {
    std::vector<float> scaled = x;
    for (float& each : scaled) each *= scale;
    return reuse_threshold(scaled, 2, state).indexes.size();
  };
  CHECK(kept(1) == 2);     // threshold 5
  CHECK(kept(2) == 4);     // 6 to 12 reach it
  CHECK(kept(0.5F) == 0);  // none
  CHECK(kept(0.5F) == 2);  // computed: 2.5
  CHECK(kept(4) == 2);     // 6 would be more than 2k: computed sooner, 20
  CHECK(kept(1) == 0);
  CHECK(state.calls == 6);
}

TEST_CASE("threshold reuse: a broken gradient leaves no threshold that nothing reaches") {
  ReusedThreshold state = {.recompute_every = 100};
  CHECK(reuse_threshold(std::vector<float>{1, kNan, 2, 3}, 1, state).indexes ==
        std::vector<std::uint32_t>{1});
  CHECK(reuse_threshold(std::vector<float>{1, 4, 2, 3}, 1, state).indexes == std::vector<std::uint32_t>{1});
  state.recompute_every = 0;
  CHECK_THROWS_WITH_AS(reuse_threshold({}, 1, state), "expected recompute_every >= 1, got 0",
                       std::invalid_argument);
}

TEST_CASE("selections: infinities and NaN go first") {
  Random random(5);
  std::vector<float> x = support::vector_of(random, 0, 3000);
  x[77] = -kInfinity;
  x[2000] = kNan;
  const std::vector<std::uint32_t> broken = {77, 2000};
  ReusedThreshold state;
  for (const SparseVector& kept :
       {mstopk(x, 30, 1), dgc(x, 30, 1), gaussian_k(x, 30), reuse_threshold(x, 30, state)})
    CHECK(std::ranges::includes(kept.indexes, broken));
  CHECK(mstopk(x, 2, 1).indexes == broken);
  CHECK(mstopk(x, 1, 1).indexes == std::vector<std::uint32_t>{2000});
}

TEST_CASE("sums: means are of the finite elements, in a fixed order") {
  const std::vector<float> x = {1, -2, kInfinity, 3, kNan, -6};
  const Magnitudes of = magnitudes(x);
  CHECK(of.mean == 3);
  CHECK(of.greatest == 6);
  CHECK(of.not_finite == 2);
  CHECK(moments(x).mean == -1);
  CHECK(moments(x).deviation == std::sqrt(11.5));
  CHECK(magnitudes({}).not_finite == 0);
  CHECK(magnitudes(std::vector<float>{kNan}).not_finite == 1);
  CHECK(moments(std::vector<float>{kNan}).deviation == 0);
  // Lanes of 1e16 + 1 - 1e16, where another order of summation gives another sum.
  std::vector<float> lanes(24, 0);
  lanes[0] = 1e16F;
  lanes[1] = 1;
  lanes[8] = -1e16F;
  CHECK(sum_of(lanes, [](float each) { return static_cast<double>(each); }) == 1);
}

}  // namespace
}  // namespace compression
