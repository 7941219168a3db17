#include "collectives/sparse/gradients.hpp"

#include <doctest/doctest.h>

#include "tests/collectives/sparse/ranks.hpp"

namespace {

using sparse::gradient;
using sparse::GradientSource;
using sparse::Tails;

double mean_product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum / static_cast<double>(a.size());
}

double fourth_moment(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += std::pow(static_cast<double>(value), 4);
  return sum / static_cast<double>(x.size());
}

constexpr std::size_t kMany = 40000;

TEST_CASE("gradients: variance 1, ranks that share what they are asked to share, and the tails asked for") {
  for (const Tails tails : {Tails::gaussian, Tails::laplace})
    for (const double common : {0.0, 0.25, 1.0}) {
      const GradientSource source = {.tails = tails, .layer_sigma = 0, .common = common};
      const std::vector<float> a = gradient(source, kMany, 0, 3);
      CHECK(mean_product(a, a) == doctest::Approx(1).epsilon(0.05));
      CHECK(std::abs(mean_product(a, gradient(source, kMany, 1, 3)) - common) < 0.04);
      CHECK(fourth_moment(a) == doctest::Approx(tails == Tails::gaussian ? 3 : 6).epsilon(0.15));
    }
}

TEST_CASE("gradients: iterations drift apart") {
  const GradientSource source = {.layer_sigma = 0, .drift = 0.1};
  const std::vector<float> first = gradient(source, kMany, 0, 10);
  for (const std::uint64_t later : {0U, 1U, 5U, 8U}) {
    const double expected = std::cos(2 * static_cast<double>(later) * std::atan(0.1));
    CHECK(std::abs(mean_product(first, gradient(source, kMany, 0, 10 + later)) - expected) < 0.03);
  }
  CHECK(ranks::same(first, gradient(source, kMany, 0, 10)));
  CHECK(ranks::same(gradient({.drift = 0}, 100, 1, 0), gradient({.drift = 0}, 100, 1, 7)));
}

TEST_CASE("gradients: layers have scales of their own") {
  const std::vector<float> x = gradient({.seed = 4, .layers = 8, .layer_sigma = 2}, kMany, 0, 0);
  std::vector<double> scales;
  for (std::size_t i = 0; i + 2000 <= x.size(); i += 2000) {
    const std::vector<float> some(x.begin() + static_cast<std::ptrdiff_t>(i),
                                  x.begin() + static_cast<std::ptrdiff_t>(i + 2000));
    scales.push_back(std::sqrt(mean_product(some, some)));
  }
  CHECK(*std::max_element(scales.begin(), scales.end()) >
        10 * *std::min_element(scales.begin(), scales.end()));
}

TEST_CASE("gradients: the same numbers on every machine") {
  const std::vector<float> x = gradient({.tails = Tails::laplace, .layers = 3}, 4, 2, 9);
  CHECK(ranks::bits(x) == std::vector<std::uint32_t>{0x3e17d217U, 0x3d8cf695U, 0x3e25b620U, 0xbdbfa960U});
}

TEST_CASE("gradients: what is no source is an error") {
  CHECK(gradient({}, 0, 0, 0).empty());
  CHECK_THROWS_AS(gradient({.layers = 0}, 1, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(gradient({.common = 1.5}, 1, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(gradient({.drift = -1}, 1, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(gradient({.layer_sigma = -1}, 1, 0, 0), std::invalid_argument);
}

}  // namespace
