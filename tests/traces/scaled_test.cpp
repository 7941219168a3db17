// What-ifs of networks and profiles.

#include "traces/scaled.hpp"

#include <doctest/doctest.h>

#include "tests/support/planning.hpp"

namespace traces {
namespace {

Network every_kind() {
  Network network = support::link_of(10, 0.5, 0.25);
  network.line_rate_gbps = 40;
  network.levels = {{.name = "inside", .size = 8, .link = {.alpha_us = 2, .beta_us_per_byte = 0.125}}};
  network.measured = {{.workers = 4, .curve = CostCurve::through({{4, 8}, {8, 10}, {16, 6}})},
                      {.workers = 8, .curve = CostCurve::of_segments({{0, 64, 3, 0.5}, {64, 128, 5, 0.25}})}};
  return network;
}

TEST_CASE("scaled: factors of 1 change nothing") {
  CHECK(scaled(every_kind(), 1, 1) == every_kind());
  support::Random random(3);
  const Profile profile = support::random_profile(random, 9);
  CHECK(scaled(profile, 1) == profile);
}

TEST_CASE("scaled: alpha and beta take their factors, gamma none, and the line rate falls") {
  const Network got = scaled(every_kind(), 3, 2);
  CHECK(got.link == Link{.alpha_us = 30, .beta_us_per_byte = 1, .gamma_us_per_byte = 0.25});
  CHECK(got.levels.front().link == Link{.alpha_us = 6, .beta_us_per_byte = 0.25});
  CHECK(got.line_rate_gbps == 20);
  CHECK(scaled(every_kind(), 1, 0).line_rate_gbps == std::nullopt);
}

TEST_CASE("scaled: a curve's first value is startup, the rest is bytes, and none falls below 0") {
  const Network got = scaled(every_kind(), 3, 2);
  CHECK(got.measured[0].curve.points() == std::vector<std::pair<double, double>>{{4, 24}, {8, 28}, {16, 20}});
  CHECK(got.measured[1].curve.segments() ==
        std::vector<CostCurve::Segment>{{0, 64, 9, 1}, {64, 128, 15, 0.5}});
  CHECK(scaled(every_kind(), 0, 2).measured[0].curve.points().back().second == 0);
}

TEST_CASE("scaled: compute takes its factor wherever a profile tells of it") {
  Profile profile = support::profile_of({{2, 6, {10, 20}, {4, 2}}});
  profile.layers[0].forward_spread_us = 0.5;
  const Profile got = scaled(profile, 2);
  CHECK(got.layers[0].forward_us == 4);
  CHECK(got.layers[0].backward_us == 12);
  CHECK(got.layers[0].tensors[0].backward_us == 8);
  CHECK(got.layers[0].forward_spread_us == 1);
  CHECK(got.layers[0].tensors[0].elements == 10);
}

}  // namespace
}  // namespace traces
