// Selection of the elements of largest magnitude, compared with a sort.

#include "collectives/compression/select.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "tests/collectives/compression/vectors.hpp"

namespace compression {
namespace {

using support::kInfinity;
using support::kNan;
using support::Random;

/// Indexes sorted by magnitude, largest first; ties by index.
std::vector<std::uint32_t> sorted(std::span<const float> x) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return (support::bits_of(x[a]) << 1U) > (support::bits_of(x[b]) << 1U);
  });
  return order;
}

SparseVector plain_top_k(std::span<const float> x, std::size_t k) {
  SparseVector kept = {.indexes = sorted(x), .values = {}};
  kept.indexes.resize(std::min(k, x.size()));
  std::ranges::sort(kept.indexes);
  for (const std::uint32_t i : kept.indexes) kept.values.push_back(x[i]);
  return kept;
}

void check_selection(std::span<const float> x, std::size_t k) {
  CAPTURE(k);
  REQUIRE(support::same(top_k(x, k), plain_top_k(x, k)));
  if (k == 0 || x.empty()) return;
  const float kth = kth_magnitude(x, k);
  const std::uint32_t last = sorted(x)[std::min(k, x.size()) - 1];
  REQUIRE(support::bits_of(kth) == magnitude(x[last]));
  SparseVector reaching;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    if ((support::bits_of(x[i]) << 1U) < (support::bits_of(x[last]) << 1U)) continue;
    reaching.indexes.push_back(i);
    reaching.values.push_back(x[i]);
  }
  REQUIRE(support::same(at_least(x, kth), reaching));
  REQUIRE(count_at_least(x, kth) == reaching.indexes.size());
}

TEST_CASE("top-k: as a sort would, whatever the elements are") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<float> x =
        support::vector_of(random, seed % support::kKinds, support::length_of(seed, random));
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, x.size() / 100, x.size() / 3, x.size(),
                                x.size() + 1, std::size_t{random.below(100)}})
      check_selection(x, k);
  }
}

TEST_CASE("top-k: as a sort would where a sample suggests the floor, and where it misleads") {
  constexpr std::size_t kLong = 70'000;
  for (std::uint32_t kind = 0; kind < support::kKinds; ++kind) {
    CAPTURE(kind);
    Random random(kind);
    std::vector<float> x = support::vector_of(random, kind, kLong);
    for (const std::size_t k : {1UL, 7UL, 70UL, 700UL, 4375UL, 4376UL, 60'000UL}) check_selection(x, k);
  }
}

TEST_CASE("top-k: as a sort would where the sample sees too great elements alone") {
  Random random(1);
  std::vector<float> x = support::vector_of(random, 0, 70'000);
  for (std::uint64_t i = 0; i < 1300; ++i) x[sim::hash(0, i) % x.size()] = 5;  // the elements sampled first
  check_selection(x, 4000);
}

TEST_CASE("top-k: NaN before infinity before numbers, whatever their signs, of equals the first") {
  const std::vector<float> x = {1, -kInfinity, 3, -kNan, 0, -3, 3, kInfinity};
  CHECK(top_k(x, 1).indexes == std::vector<std::uint32_t>{3});
  CHECK(top_k(x, 2).indexes == std::vector<std::uint32_t>{1, 3});
  CHECK(top_k(x, 4).indexes == std::vector<std::uint32_t>{1, 2, 3, 7});
  CHECK(top_k(x, 5).indexes == std::vector<std::uint32_t>{1, 2, 3, 5, 7});
  CHECK(kth_magnitude(x, 3) == kInfinity);
  CHECK(kth_magnitude(x, 6) == 3);
}

TEST_CASE("top-k: thresholds") {
  const std::vector<float> x = {-0.0F, 2, -3, kNan};
  CHECK(at_least(x, -1).indexes == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(at_least(x, -0.0F).indexes == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(at_least(x, 2).indexes == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(at_least(x, kInfinity).indexes == std::vector<std::uint32_t>{3});
  CHECK(at_least(x, kNan).indexes == std::vector<std::uint32_t>{3});
  CHECK(kth_magnitude(x, 9) == 0);
  CHECK(kth_magnitude({}, 1) == 0);
  CHECK_THROWS_WITH_AS(kth_magnitude(x, 0), "expected k >= 1, got 0", std::invalid_argument);
}

}  // namespace
}  // namespace compression
