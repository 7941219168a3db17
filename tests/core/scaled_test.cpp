// What-if variants: the effect of scaling on costs of collectives, on curves and on compute times.

#include "core/scaled.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "core/field.hpp"
#include "planner/cost/costs.hpp"
#include "tests/support/random.hpp"

namespace core {
namespace {

using planner::Costs;

const Link kLink = {.alpha_us = 45, .beta_us_per_byte = 0.001, .gamma_us_per_byte = 0.0002};

Network of_link(const Link& link) {
  return {.name = "n", .origin = {}, .link = link, .line_rate_gbps = 10, .levels = {}, .measured = {}};
}

Network of_curve(CostCurve curve) {
  return {.name = "n",
          .origin = {},
          .link = {},
          .line_rate_gbps = {},
          .levels = {},
          .measured = {{.collective = CollectiveKind::all_reduce,
                        .algorithm = {},
                        .workers = 4,
                        .curve = std::move(curve),
                        .fit = Fit{.r2 = 0.9, .mean_relative_error = 0.1, .max_relative_error = 0.2}}}};
}

CostCurve scaled_curve(CostCurve curve, double startup_factor, double per_byte_factor) {
  return scaled(of_curve(std::move(curve)), startup_factor, per_byte_factor).measured.front().curve;
}

/// The promise of scaled() for a curve whose lines do not fall below 0.
double expected_us(const CostCurve& curve, double bytes, double startup_factor, double per_byte_factor) {
  const double first = curve.startup_us();
  return std::max(0.0, startup_factor * first + per_byte_factor * (curve.us(bytes) - first));
}

const CostCurve kRising = CostCurve::through({{1000, 50}, {2000, 60}, {8000, 180}});
const CostCurve kDipping = CostCurve::through({{1000, 100}, {2000, 20}, {8000, 140}});
const CostCurve kSegments = CostCurve::of_segments({{0, 1000, 30, 0.01}, {1000, 5000, 20, 0.03}});

Network full_network() {
  Network network = of_link(kLink);
  network.levels = {{.name = "nvlink", .size = 8, .link = {.alpha_us = 5, .beta_us_per_byte = 0.00002}},
                    {.name = "25gbe", .size = {}, .link = kLink, .shared = true}};
  for (const CostCurve& curve : {kRising, kDipping, kSegments})
    network.measured.push_back(of_curve(curve).measured.front());
  return network;
}

TEST_CASE("scaled: factors of 1 change nothing") { CHECK(scaled(full_network(), 1, 1) == full_network()); }

TEST_CASE("scaled: links of levels and flat ones alike, summing stays the worker's own") {
  const Network out = scaled(full_network(), 2, 0.5);
  CHECK(out.link == Link{.alpha_us = 90, .beta_us_per_byte = 0.0005, .gamma_us_per_byte = 0.0002});
  CHECK(out.levels[0].link == Link{.alpha_us = 10, .beta_us_per_byte = 0.00001, .gamma_us_per_byte = 0});
  CHECK(out.levels[1].link == *out.link);
  CHECK(out.levels[0].size == 8);
  CHECK(out.levels[1].shared);
  CHECK(out.line_rate_gbps == 20);
}

TEST_CASE("scaled: a network without a cost per byte has no line rate") {
  const Network out = scaled(full_network(), 1, 0);
  CHECK_FALSE(out.line_rate_gbps.has_value());
  CHECK(out.link->beta_us_per_byte == 0);
}

TEST_CASE("scaled: a ring on 4 workers costs its startup and its bytes so many times") {
  // 6 alpha, 1.5 beta, 0.75 gamma
  const Network network = of_link(kLink);
  const Network slower = scaled(network, 3, 7);
  const Costs costs(slower, 4, {.name = "ring"});
  const auto& curve = costs.of(CollectiveKind::all_reduce).curve;
  CHECK(curve.startup_us() == doctest::Approx(3 * 6 * 45.0));
  CHECK(curve.us(1e6) == doctest::Approx(3 * 6 * 45.0 + 7 * 1.5 * 1000 + 0.75 * 200));
}

TEST_CASE("scaled: of a measured curve the first value is the startup, the rest the bytes") {
  // 50, then 10 and 130 on top
  const CostCurve out = scaled_curve(kRising, 2, 10);
  CHECK(out == CostCurve::through({{1000, 100}, {2000, 200}, {8000, 1400}}));
  CHECK(out.us(500) == 100);
  CHECK(out.us(14000) == doctest::Approx(100 + 10 * 250));
  CHECK(out.measured_up_to_bytes() == 8000);
}

TEST_CASE("scaled: a constant has nothing but a startup") {
  CHECK(scaled_curve(CostCurve::through({{1000, 50}}), 3, 100) == CostCurve::through({{1000, 150}}));
}

TEST_CASE("scaled: segments keep their jumps, so many times as high") {
  // first value 30; at 1000 the line jumps from 40 to 50
  const CostCurve out = scaled_curve(kSegments, 2, 3);
  CHECK(out.us(0) == doctest::Approx(60));
  CHECK(out.us(999.999999) == doctest::Approx(60 + 3 * 10));
  CHECK(out.us(1000) == doctest::Approx(60 + 3 * 20));
  CHECK(out.us(9000) == doctest::Approx(60 + 3 * (290 - 30)));
}

TEST_CASE("scaled: a falling curve stops at 0 and rises again from there") {
  // 100, 20, 140 with startups free and bytes as they are: 0, -80, 40
  const CostCurve out = scaled_curve(kDipping, 0, 1);
  for (const double bytes : {0.0, 1000.0, 1500.0, 2000.0, 3000.0, 5999.0}) CHECK(out.us(bytes) == 0);
  CHECK(out.us(6000) == doctest::Approx(0).epsilon(1e-9));
  CHECK(out.us(7000) == doctest::Approx(20));
  CHECK(out.us(8000) == doctest::Approx(40));
  CHECK(out.us(16000) == doctest::Approx(200));
  CHECK(out.measured_up_to_bytes() == 8000);
  const Network network = scaled(of_curve(kDipping), 0, 1);
  CHECK(read_network(core::Field::parse(network_text(network), "n.json")) == network);
}

TEST_CASE("scaled: seeded curves follow the formula and are never under 0") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    std::vector<std::pair<double, double>> points;
    double bytes = 0;
    for (std::uint32_t i = 0; i <= seed % 6; ++i) {
      bytes += 1.0 + static_cast<double>(random.below(5000));
      points.emplace_back(bytes, static_cast<double>(random.below(400)));
    }
    const CostCurve curve = CostCurve::through(points);
    const double startup_factor = 0.25 * static_cast<double>(random.below(9));
    const double per_byte_factor = 0.25 * static_cast<double>(random.below(9));
    const CostCurve out = scaled_curve(curve, startup_factor, per_byte_factor);
    for (double at = 0; at <= bytes; at += bytes / 37) {
      CHECK(out.us(at) >= 0);
      CHECK(out.us(at) == doctest::Approx(expected_us(curve, at, startup_factor, per_byte_factor)).scale(1));
    }
  }
}

TEST_CASE(
    "scaled: the kernels of a layer take so many times as long, and waits for their launch shrink by it") {
  Profile profile;
  profile.layers = {{.name = "a", .kind = "k", .forward_us = 100, .backward_us = 60}};
  profile.layers[0].forward_device_us = 60;
  profile.layers[0].backward_device_us = 60;
  const auto forward = [&](double factor) { return scaled(profile, factor).layers[0]; };
  CHECK(forward(1) == profile.layers[0]);
  CHECK(forward(1.5).forward_us == 100);  // 90 of kernels, 10 of the 40 are still waited for
  CHECK(forward(2).forward_us == 120);
  CHECK(forward(0.5).forward_us == 70);
  CHECK(forward(0.5).forward_device_us == 30);
  CHECK(forward(2).backward_us == 120);
}

TEST_CASE("scaled: equal factors multiply every cost, and keep the fit") {
  const Network out = scaled(full_network(), 1.75, 1.75);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(out.measured[i].fit.has_value());
    for (const double bytes : {0.0, 700.0, 1500.0, 4000.0, 9000.0})
      CHECK(out.measured[i].curve.us(bytes) ==
            doctest::Approx(1.75 * full_network().measured[i].curve.us(bytes)));
  }
  CHECK_FALSE(scaled(full_network(), 1, 2).measured[0].fit.has_value());
}

const Profile kProfile = {.model = "m",
                          .batch_size = 8,
                          .dtype = Dtype::float16,
                          .device = "d",
                          .origin = {},
                          .layers = {{.name = "a",
                                      .kind = "k",
                                      .forward_us = 3,
                                      .backward_us = 5,
                                      .tensors = {{.name = "w", .elements = 7, .backward_us = 4},
                                                  {.name = "b", .elements = 1, .backward_us = 1}},
                                      .forward_spread_us = 0.5},
                                     {.name = "c",
                                      .kind = "k",
                                      .forward_us = 2,
                                      .backward_us = 1,
                                      .backward_spread_us = 0.25,
                                      .activation_bytes = 9}}};

TEST_CASE("scaled: the spread of a curve's points goes with their times, and away with the points") {
  Network network = {.name = "n",
                     .measured = {{.workers = 2,
                                   .curve = CostCurve::through({{0, 10}, {100, 30}}),
                                   .spread_us = {1, 6},
                                   .p99_us = {20, 60}}}};
  const Measured slower = scaled(network, 2, 2).measured.at(0);
  CHECK(slower.spread_us == std::vector<double>{2, 12});
  CHECK(slower.p99_us == std::vector<double>{40, 120});
  // 10 us of startup are removed: 20 of the second point's 30 us stay.
  const Measured no_startup = scaled(network, 0, 1).measured.at(0);
  CHECK(no_startup.spread_us == std::vector<double>{0, 4});
  network.measured[0].curve = CostCurve::through({{0, 30}, {100, 10}});  // negative without its startup
  CHECK(scaled(network, 0, 1).measured.at(0).spread_us.empty());
}

TEST_CASE("scaled: a profile's times, parts of them and spreads, and nothing else") {
  Profile expected = kProfile;
  expected.layers[0].forward_us = 6;
  expected.layers[0].backward_us = 10;
  expected.layers[0].tensors[0].backward_us = 8;
  expected.layers[0].tensors[1].backward_us = 2;
  expected.layers[0].forward_spread_us = 1;
  expected.layers[1].forward_us = 4;
  expected.layers[1].backward_us = 2;
  expected.layers[1].backward_spread_us = 0.5;
  CHECK(scaled(kProfile, 2) == expected);
  CHECK(scaled(kProfile, 1) == kProfile);
}

}  // namespace
}  // namespace core
