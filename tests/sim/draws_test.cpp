// Random numbers: the same bits everywhere, the promised accuracy, and the right distributions.

#include "sim/draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace sim {
namespace {

double relative_error(double got, long double exact) {
  return static_cast<double>(std::abs((static_cast<long double>(got) - exact) / exact));
}

TEST_CASE("draws: bits are the same everywhere") {
  CHECK(mix(1) == 0x5692161d100b05e5U);
  CHECK(hash(1) == 0x910a2dec89025cc1U);
  CHECK(hash(1, 2) == 0xbcd9dbb49673066bU);
  CHECK(hash(1, 2, 3) == 0xd0734750fde362b3U);
  CHECK(hash(0, 0, 0) == 0x238275bc38fcbe91U);
}

TEST_CASE("draws: numbers are the same everywhere") {
  CHECK(uniform(hash(1, 0)) == 0x1.7906ac21d0e5ap-2);
  CHECK(standard_normal(hash(1, 0)) == -0x1.58bb60e4c33b4p-2);
  CHECK(standard_normal(hash(1, 1)) == 0x1.5daecfec022aap+0);  // in the tail
  CHECK(lognormal_mean_one(hash(1, 0), 0.2) == 0x1.d52f0084b838cp-1);
  CHECK(lognormal_mean_one(hash(1, 1), 0.2) == 0x1.49c2bbeb17b04p+0);
  CHECK(portable_exp(1) == 0x1.5bf0a8b14576ap+1);
  CHECK(portable_exp(-0.5) == 0x1.368b2fc6f960ap-1);
  CHECK(portable_log(2) == 0x1.62e42fefa39efp-1);
  CHECK(portable_log(10) == 0x1.26bb1bbb55516p+1);
}

TEST_CASE("draws: a hash depends on every word and on their order") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (int a = 0; a < 50; ++a)
      for (int b = 0; b < 50; ++b) seen.insert(hash(seed, a, b));
  CHECK(seen.size() == 10 * 50 * 50);
  CHECK(hash(1, 2) != hash(1, 2, 0));
}

TEST_CASE("draws: uniform is never 0 and never 1, and symmetric") {
  CHECK(uniform(0) == 0x1p-53);
  CHECK(uniform(~std::uint64_t{0}) == 1 - 0x1p-53);
  CHECK(uniform(std::uint64_t{1} << 63U) == 0.5 + 0x1p-53);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bits = hash(2, i);
    CHECK(uniform(bits) + uniform(~bits) == 1);
    CHECK(standard_normal(bits) == -standard_normal(~bits));
  }
}

TEST_CASE("draws: exp is within 1e-15 over all its range") {
  double worst = 0;
  for (int i = 0; i < 300'000; ++i) {
    const double x = -700 + 1400 * uniform(hash(3, i));
    worst = std::max(worst, relative_error(portable_exp(x), std::exp(static_cast<long double>(x))));
    const double small = x / 1000;
    worst = std::max(worst, relative_error(portable_exp(small), std::exp(static_cast<long double>(small))));
  }
  CHECK(worst < 1e-15);
  CHECK(portable_exp(0) == 1);
  CHECK(portable_exp(-746) == 0);
  CHECK(portable_exp(-1e300) == 0);
  CHECK(portable_exp(-745) == std::numeric_limits<double>::denorm_min());
  CHECK(portable_exp(709.78) < std::numeric_limits<double>::infinity());
  CHECK(portable_exp(710) == std::numeric_limits<double>::infinity());
}

TEST_CASE("draws: log is within 1e-15 over all its range and near 1") {
  double worst = 0;
  for (int i = 0; i < 300'000; ++i) {
    const double m = 0.5 + uniform(hash(4, i));
    worst = std::max(worst, relative_error(portable_log(m), std::log(static_cast<long double>(m))));
    const double x = std::ldexp(m, static_cast<int>(hash(5, i) % 2000) - 1000);
    worst = std::max(worst, relative_error(portable_log(x), std::log(static_cast<long double>(x))));
  }
  for (const double x : {1 - 0x1p-53, 1 + 0x1p-52, std::numeric_limits<double>::denorm_min(),
                         std::numeric_limits<double>::max()})
    worst = std::max(worst, relative_error(portable_log(x), std::log(static_cast<long double>(x))));
  CHECK(worst < 1e-15);
  CHECK(portable_log(1) == 0);
}

TEST_CASE("draws: the normal distribution's curves") {
  const auto exact_below = [](double z) { return std::erfc(-z / std::sqrt(2.0L)) / 2; };
  double worst = 0;
  for (int i = -9000; i <= 9000; ++i) {
    const double z = i / 1000.0;
    worst = std::max(worst, static_cast<double>(std::abs(normal_below(z) - exact_below(z))));
  }
  CHECK(worst < 2e-15);
  CHECK(normal_below(0) == 0.5);
  CHECK(normal_density(0) == doctest::Approx(0.3989422804014327).epsilon(1e-15));
  CHECK(normal_density(-2) == doctest::Approx(0.05399096651318806).epsilon(1e-14));
  CHECK(normal_density(40) < 1e-300);
}

TEST_CASE("draws: a normal draw is the inverse of the normal distribution, tails included") {
  const auto off_by = [](std::uint64_t bits) {
    const long double z = standard_normal(bits);
    const long double density = std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979323846264L);
    const long double below = std::erfc(-z / std::sqrt(2.0L)) / 2;
    return static_cast<double>(std::abs((below - static_cast<long double>(uniform(bits))) / density));
  };
  double worst = 0;
  for (int i = 0; i < 300'000; ++i) worst = std::max(worst, off_by(hash(8, i)));
  for (unsigned shift = 0; shift < 64; ++shift) worst = std::max(worst, off_by(~std::uint64_t{0} >> shift));
  CHECK(worst < 4e-15);
}

TEST_CASE("draws: the expected largest of normal draws, as tables of order statistics have it") {
  CHECK(expected_largest_normal(1) == doctest::Approx(0).epsilon(1e-3));
  CHECK(expected_largest_normal(2) == doctest::Approx(0.56419).epsilon(1e-3));
  CHECK(expected_largest_normal(8) == doctest::Approx(1.42360).epsilon(1e-3));
  CHECK(expected_largest_normal(100) == doctest::Approx(2.50759).epsilon(1e-3));
  constexpr std::uint64_t kRounds = 20000;
  constexpr std::uint64_t kWorkers = 128;
  double sum = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    double largest = -10;
    for (std::uint64_t worker = 0; worker < kWorkers; ++worker)
      largest = std::max(largest, standard_normal(hash(round, worker)));
    sum += largest;
  }
  CHECK(expected_largest_normal(kWorkers) == doctest::Approx(sum / kRounds).epsilon(0.005));
}

TEST_CASE("draws: a million normal draws have mean 0, standard deviation 1, no skew and the right kurtosis") {
  constexpr int kDraws = 1'000'000;
  std::array<double, 5> moments{};
  for (int i = 0; i < kDraws; ++i) {
    const double z = standard_normal(hash(1, i));
    double power = 1;
    for (double& moment : moments) {
      moment += power / kDraws;
      power *= z;
    }
  }
  // four standard errors each
  CHECK(std::abs(moments[1]) < 4 * 1e-3);
  CHECK(std::abs(moments[2] - 1) < 4 * 1.41e-3);
  CHECK(std::abs(moments[3]) < 4 * 3.87e-3);
  CHECK(std::abs(moments[4] - 3) < 4 * 9.8e-3);
}

TEST_CASE("draws: a million log-normal draws have mean 1, and sigma is that of their logarithm") {
  constexpr int kDraws = 1'000'000;
  for (const double sigma : {0.05, 0.5}) {
    double mean = 0;
    double log_mean = 0;
    double log_square = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double draw = lognormal_mean_one(hash(7, i), sigma);
      const double log = portable_log(draw);
      mean += draw / kDraws;
      log_mean += log / kDraws;
      log_square += log * log / kDraws;
    }
    CHECK(mean == doctest::Approx(1).epsilon(4 * sigma * 1.1e-3));
    CHECK(std::sqrt(log_square - log_mean * log_mean) == doctest::Approx(sigma).epsilon(4 * 0.71e-3));
  }
  CHECK(lognormal_mean_one(hash(7, 1), 0) == 1);
}

/// The deviation of counts from equal, in standard deviations of the chi-square distribution.
template <std::size_t kCells>
double chi_square_deviation(const std::array<int, kCells>& counts, int draws) {
  const double expected = static_cast<double>(draws) / kCells;
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  constexpr double kFreedom = kCells - 1;
  return (sum - kFreedom) / std::sqrt(2 * kFreedom);
}

TEST_CASE("draws: neighbouring counters, seeds and words are independent") {
  constexpr int kDraws = 1'000'000;
  const auto cell = [](std::uint64_t bits) { return static_cast<std::size_t>(uniform(bits) * 16); };
  std::array<int, 256> counters{};
  std::array<int, 256> seeds{};
  std::array<int, 256> workers{};
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ++counters.at(16 * cell(hash(1, i)) + cell(hash(1, i + 1)));
    ++seeds.at(16 * cell(hash(1, i)) + cell(hash(2, i)));
    ++workers.at(16 * cell(hash(1, i, 0)) + cell(hash(1, i, 1)));
  }
  CHECK(std::abs(chi_square_deviation(counters, kDraws)) < 4);
  CHECK(std::abs(chi_square_deviation(seeds, kDraws)) < 4);
  CHECK(std::abs(chi_square_deviation(workers, kDraws)) < 4);
}

TEST_CASE("draws: every bit of a hash is as often 1 as 0, and changes with each bit of the counter") {
  std::array<int, 64> ones{};
  std::array<int, 64> flips{};
  constexpr int kDraws = 100'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const std::uint64_t bits = hash(1, i);
    const std::uint64_t changed = bits ^ hash(1, i ^ (std::uint64_t{1} << (i % 64)));
    for (unsigned bit = 0; bit < 64; ++bit) {
      ones.at(bit) += static_cast<int>((bits >> bit) & 1U);
      flips.at(bit) += static_cast<int>((changed >> bit) & 1U);
    }
  }
  const double five_deviations = 5 * std::sqrt(kDraws / 4.0);
  for (unsigned bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    CHECK(std::abs(ones.at(bit) - kDraws / 2) < five_deviations);
    CHECK(std::abs(flips.at(bit) - kDraws / 2) < five_deviations);
  }
}

TEST_CASE("draws: many at once are each as one by itself, to the last bit") {
  std::vector<std::uint64_t> bits = {0, 1, UINT64_MAX, UINT64_MAX - 1, std::uint64_t{1} << 63U};
  for (std::uint64_t i = 0; i < 3000; ++i) bits.push_back(hash(9, i));
  std::vector<double> factors(bits.size());
  for (const double sigma : {0.0, 0.05, 0.5, 2.0, 10.0}) {
    lognormal_mean_one(bits, sigma, factors);
    for (std::size_t i = 0; i < bits.size(); ++i) CHECK(factors[i] == lognormal_mean_one(bits[i], sigma));
  }
}

}  // namespace
}  // namespace sim
