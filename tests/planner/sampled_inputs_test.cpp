// Times sampled from measured spreads: as wide as the spread, of mean 1, and reproducible.

#include "planner/run/sampled_inputs.hpp"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

namespace planner {
namespace {

constexpr std::uint64_t kSamples = 2000;
constexpr double kSigma = 0.1;
constexpr double kRangeOfNormal = 1.349;

/// Mean and standard deviation of the logarithm of `of` over the samples.
template <typename Of>
void check_lognormal(double us, const Of& of) {
  double sum = 0;
  double logs = 0;
  double squares = 0;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const double factor = of(sample) / us;
    sum += factor;
    logs += std::log(factor);
    squares += std::log(factor) * std::log(factor);
  }
  constexpr double kCount = kSamples;
  CHECK(sum / kCount == doctest::Approx(1).epsilon(0.01));
  CHECK(std::sqrt(squares / kCount - logs / kCount * logs / kCount) == doctest::Approx(kSigma).epsilon(0.05));
}

core::Profile profile() {
  return {.model = "m",
          .layers = {{.name = "a", .kind = "k", .forward_us = 100, .backward_us = 200},
                     {.name = "b",
                      .kind = "k",
                      .forward_us = 300,
                      .backward_us = 400,
                      .tensors = {{"b.x", 10, 150.0}, {"b.y", 10, 250.0}}}}};
}

/// A network with 1000 us at 1 MB and 2000 us at 2 MB, for 4 workers.
core::Network network() {
  return {.name = "n",
          .measured = {{.collective = core::CollectiveKind::all_reduce,
                        .workers = 4,
                        .curve = core::CostCurve::through({{1e6, 1000}, {2e6, 2000}})}}};
}

TEST_CASE("drawn: without a spread nothing varies, and what is drawn is what was given") {
  CHECK(!varies(profile()));
  CHECK(!varies(network(), 4));
  CHECK(sampled(profile(), 7) == profile());
  CHECK(sampled(network(), 4, 7) == network());
  core::Profile zero = profile();
  zero.layers[0].forward_spread_us = 0;
  CHECK(!varies(zero));
  zero.layers[0].forward_us = 0;
  zero.layers[0].forward_spread_us = 3;  // of a layer that takes no time
  CHECK(!varies(zero));
}

TEST_CASE("drawn: a layer's pass as wide as its spread, its parts together, the others left alone") {
  core::Profile given = profile();
  given.layers[0].forward_spread_us = kRangeOfNormal * kSigma * 100;
  given.layers[1].backward_spread_us = kRangeOfNormal * kSigma * 400;
  CHECK(varies(given));
  check_lognormal(100, [&](std::uint64_t sample) { return sampled(given, sample).layers[0].forward_us; });
  check_lognormal(400, [&](std::uint64_t sample) { return sampled(given, sample).layers[1].backward_us; });
  const core::Profile one = sampled(given, 3);
  CHECK(one == sampled(given, 3));
  CHECK(one.layers[0].backward_us == 200);
  CHECK(one.layers[1].forward_us == 300);
  CHECK(one.layers[0].forward_us / 100 != one.layers[1].backward_us / 400);
  CHECK(*one.layers[1].tensors[0].backward_us / 150 == doctest::Approx(one.layers[1].backward_us / 400));
  CHECK(*one.layers[1].tensors[1].backward_us / 250 == doctest::Approx(one.layers[1].backward_us / 400));
}

TEST_CASE("drawn: each size of a curve by its spread or its 99th percentile, whichever says more") {
  core::Network given = network();
  given.measured[0].spread_us = {kRangeOfNormal * kSigma * 1000, 0};
  CHECK(varies(given, 4));
  CHECK(!varies(given, 8));
  CHECK(sampled(given, 8, 1) == given);
  const auto at = [&](double bytes) {
    return [&, bytes](std::uint64_t sample) { return sampled(given, 4, sample).measured[0].curve.us(bytes); };
  };
  check_lognormal(1000, at(1e6));
  CHECK(at(2e6)(5) == doctest::Approx(2000));
  CHECK(at(1.5e6)(5) == doctest::Approx((at(1e6)(5) + 2000) / 2));

  given.measured[0].p99_us = {1000, 2000 * std::exp(2.326 * kSigma)};
  check_lognormal(1000, at(1e6));
  check_lognormal(2000, at(2e6));
}

TEST_CASE("drawn: beyond its last point a curve goes on as it did, times that point's factor") {
  core::Network given = network();
  given.measured[0].spread_us = {100, 200};
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const core::CostCurve curve = sampled(given, 4, sample).measured[0].curve;
    CHECK(curve.us(8e6) / 8000 == doctest::Approx(curve.us(2e6) / 2000));
  }
  given.measured[0].curve = core::CostCurve::through({{1e6, 1000}});  // a constant curve
  given.measured[0].spread_us = {100};
  const core::CostCurve constant = sampled(given, 4, 1).measured[0].curve;
  CHECK(constant.us(1) == constant.us(1e9));
  CHECK(constant.us(1) != 1000);
}

}  // namespace
}  // namespace planner
