// Prediction intervals: present if the inputs have a spread, as wide as the spread implies, and reproducible.

#include "planner/run/interval.hpp"

#include <cmath>
#include <optional>

#include <doctest/doctest.h>

#include "planner/cost/setting.hpp"
#include "planner/run/predict.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

std::optional<Interval> interval_of(const core::Profile& profile, const core::Network& network,
                                    std::int64_t workers, const std::string& schedule = R"("wfbp")",
                                    const Conditions& conditions = {}) {
  const Schedule read = read_schedule(core::Field::parse(schedule, "s.json"));
  const Setting setting(profile, network, workers, Algorithm{.name = "ring"}, conditions);
  return interval(setting, read, run(setting, read));
}

/// A network with all-reduces of 4 workers: 1000 us up to 1 MB, then 1 us per 1000 bytes.
core::Network measured_network() {
  return {.name = "n",
          .measured = {{.collective = core::CollectiveKind::all_reduce,
                        .workers = 4,
                        .curve = core::CostCurve::through({{1e6, 1000}, {2e6, 2000}})}}};
}

/// Sigma of every spread in these tests; there is one layer.
constexpr double kSigma = 0.1;
constexpr double kRangeOfNormal = 1.349;
/// 95 % of standard normal samples are closer to 0.
constexpr double kZ = 1.96;

/// Three standard errors of the ends of an interval from 200 samples.
constexpr double kTolerance = 0.06;

/// Checks both ends against exp(sigma z - sigma^2 / 2) times the time.
void check_lognormal(const std::optional<Interval>& found, double fixed_us, double us) {
  REQUIRE(found.has_value());
  CHECK(found->samples == 200);
  const double low = fixed_us + us * std::exp(-kZ * kSigma - kSigma * kSigma / 2);
  const double high = fixed_us + us * std::exp(kZ * kSigma - kSigma * kSigma / 2);
  CHECK(found->low_us == doctest::Approx(low).epsilon(kTolerance));
  CHECK(found->high_us == doctest::Approx(high).epsilon(kTolerance));
}

TEST_CASE("interval: none where the inputs carry no spread, or one of 0") {
  core::Profile profile = support::profile_of({{100, 200, {10}}});
  CHECK(!interval_of(profile, measured_network(), 4));
  profile.layers[0].forward_spread_us = 0;
  CHECK(!interval_of(profile, measured_network(), 4));
}

TEST_CASE("interval: the range of a profile's times, of all layers at once") {
  core::Profile profile = support::profile_of({{100, 200, {10}}, {300, 400, {10}}});
  profile.compute_range = {.low = 0.8, .high = 1.5};
  const auto found = interval_of(profile, support::link_of(0, 0), 2);
  REQUIRE(found.has_value());
  CHECK(found->low_us == doctest::Approx(800).epsilon(kTolerance));
  CHECK(found->high_us == doctest::Approx(1500).epsilon(kTolerance));
  profile.compute_range = {.low = 1, .high = 1};
  CHECK(!interval_of(profile, support::link_of(0, 0), 2));
}

TEST_CASE("interval: a spread of workers lies between none and twice the given one") {
  // The slowest of 100 workers is expected 2.508 standard deviations slower: from 1000 to 1100.3 us.
  const core::Profile profile = support::profile_of({{400, 600, {10}}});
  const auto found = interval_of(profile, support::link_of(0, 0), 100, R"("wfbp")", {.worker_spread = 0.02});
  REQUIRE(found.has_value());
  CHECK(found->low_us == doctest::Approx(1002.5).epsilon(0.003));
  CHECK(found->high_us == doctest::Approx(1097.8).epsilon(0.003));
  for (const auto none : {std::optional<double>(), std::optional(0.0)})
    CHECK(!interval_of(profile, support::link_of(0, 0), 100, R"("wfbp")", {.worker_spread = none}));
}

TEST_CASE("interval: as wide as a layer's spread makes it, whatever the pipeline") {
  core::Profile profile = support::profile_of({{1000, 200, {10}}});
  profile.layers[0].forward_spread_us = kRangeOfNormal * kSigma * 1000;
  for (const std::string schedule : {R"("wfbp")", R"("s-sgd")", R"("zero")"}) {
    CAPTURE(schedule);
    check_lognormal(interval_of(profile, support::link_of(0, 0), 2, schedule), 200, 1000);
  }
}

TEST_CASE("interval: parts of a layer's backward vary together") {
  core::Profile profile = support::profile_of({{200, 1000, {10, 10}, {400, 600}}});
  profile.layers[0].backward_spread_us = kRangeOfNormal * kSigma * 1000;
  check_lognormal(interval_of(profile, support::link_of(0, 0), 2), 200, 1000);
}

TEST_CASE("interval: the same each time, and around the prediction") {
  core::Profile profile = support::profile_of({{100, 200, {10}}, {300, 500, {20, 30}}});
  for (core::ProfileLayer& layer : profile.layers) {
    layer.forward_spread_us = layer.forward_us / 20;
    layer.backward_spread_us = layer.backward_us / 20;
  }
  const auto one = interval_of(profile, measured_network(), 4);
  const auto again = interval_of(profile, measured_network(), 4);
  REQUIRE(one.has_value());
  REQUIRE(again.has_value());
  CHECK(one->low_us == again->low_us);
  CHECK(one->high_us == again->high_us);
  const double predicted =
      100 + 300 + 200 + 500 + 1000;  // the last all-reduce, and the previous one during backward
  CHECK(one->low_us < one->high_us);
  CHECK(one->high_us > predicted);
}

TEST_CASE(
    "interval: as wide as a curve's spread or 99th percentile makes it, at a point and beyond the last") {
  const core::Profile at_point = support::profile_of({{100, 200, {250'000}}});  // 1 MB: 1000 us
  const core::Profile beyond = support::profile_of({{100, 200, {2'000'000}}});  // 8 MB: 8000 us
  core::Network network = measured_network();
  network.measured[0].spread_us = {kRangeOfNormal * kSigma * 1000, kRangeOfNormal * kSigma * 2000};
  check_lognormal(interval_of(at_point, network, 4), 300, 1000);
  check_lognormal(interval_of(beyond, network, 4), 300, 8000);
  network.measured[0].spread_us.clear();
  network.measured[0].p99_us = {1000 * std::exp(2.326 * kSigma), 2000 * std::exp(2.326 * kSigma)};
  check_lognormal(interval_of(at_point, network, 4), 300, 1000);
}

TEST_CASE("interval: a curve of another collective or number of workers has no part in it") {
  const core::Profile profile = support::profile_of({{100, 200, {250'000}}});
  core::Network network = measured_network();
  network.measured[0].workers = 8;
  network.measured[0].spread_us = {100, 200};
  network.measured.push_back(measured_network().measured[0]);
  CHECK(!interval_of(profile, network, 4));
  network.measured[0].workers = 4;
  network.measured[0].collective = core::CollectiveKind::all_gather;
  CHECK(!interval_of(profile, network, 4));
}

}  // namespace
}  // namespace planner
