// The exact planner of one channel with straight pieces of cost, against the Pareto engine, which looks at
// all pairs of cuts.

#include "planner/choose/straight_channel.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "planner/choose/iteration.hpp"
#include "planner/schedule/choice.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;

/// How far apart gradients are, how large they are, and what a byte takes, so that either side may decide.
struct Scale {
  double us = 1;           ///< of a gradient's backward
  double us_per_byte = 1;  ///< of the channel
};

core::Profile random_gradients(Random& random, const Scale& scale, std::uint32_t max) {
  const std::uint32_t count = 1 + random.below(max);
  const std::uint32_t sizes = random.one_in(3) ? 1 : random.one_in(2) ? 6 : 2000;
  const bool is_whole = random.one_in(2);  // many ties
  std::vector<support::LayerSpec> layers;
  for (std::uint32_t i = 0; i < count; ++i) {
    const double us = is_whole ? random.below(4) : random.below(4000) / 997.0;
    support::LayerSpec layer = {.backward_us = scale.us * us, .elements = {}};
    for (std::uint32_t tensors = 1 + random.below(2); tensors-- > 0;)
      layer.elements.push_back(1 + random.below(sizes));
    layers.push_back(std::move(layer));
  }
  layers.front().forward_us = scale.us;  // some time in all
  return support::profile_of(layers);
}

/// A curve of points that rises, or of segments that jump upwards between each other.
core::CostCurve random_rising_curve(Random& random, const Scale& scale) {
  const std::uint32_t count = 1 + random.below(6);
  double bytes = random.one_in(2) ? 0 : 4.0 * (1 + random.below(40));
  double us = random.one_in(3) ? 0 : scale.us_per_byte * random.below(100);
  std::vector<std::pair<double, double>> points;
  std::vector<core::CostCurve::Segment> segments;
  for (std::uint32_t i = 0; i < count; ++i) {
    const double slope = random.one_in(4) ? 0 : scale.us_per_byte * random.below(40) / 7;
    const double next = bytes + (random.one_in(2) ? 8 : 1.5) * (1 + random.below(300));
    points.emplace_back(bytes, us);
    segments.push_back({.from_bytes = i == 0 ? 0 : bytes,
                        .to_bytes = next,
                        .startup_us = us - slope * (i == 0 ? 0 : bytes),
                        .us_per_byte = slope});
    us = segments.back().startup_us + slope * next + (random.one_in(3) ? scale.us_per_byte * 20 : 0);
    bytes = next;
  }
  if (random.one_in(2)) return core::CostCurve::through(points);
  return core::CostCurve::of_segments(segments);
}

core::Network random_network(Random& random, const Scale& scale) {
  if (random.one_in(2)) {
    core::Network network = {.name = "n"};
    network.measured.push_back({.collective = core::CollectiveKind::all_reduce,
                                .workers = 2,
                                .curve = random_rising_curve(random, scale)});
    return network;
  }
  const double startup = random.one_in(3) ? 0 : scale.us_per_byte * random.below(3000) / 3;
  const double per_byte = random.one_in(3) ? scale.us_per_byte : scale.us_per_byte * random.below(100) / 9;
  return support::pair_of(startup, per_byte);
}

/// From durations of a few picoseconds, where rounding decides, to some of hours, where the last bits of
/// floating point are picoseconds.
constexpr Scale kScales[] = {{1, 0.01},     {1e-6, 1e-7},  {3e-6, 0.5e-6},   {1e-3, 1e-6},
                             {0.1, 0.0007}, {1000, 0.125}, {2e6, 3e4 / 7.0}, {1e5, 0.0007}};

struct Planned {
  OptimalGroups at_once;
  OptimalGroups searched;
  bool is_straight = false;
};

/// Rules that forbid nothing make the planner search.
Planned plan(const Scene& scene, const std::string& pipeline) {
  const Schedule schedule =
      support::schedule_of(fmt::format(R"({{"pipeline": "{}", "fusion": "optimal"}})", pipeline));
  const FusionRequest request = request_of(scene.setting, schedule);
  return {.at_once = request.model().optimal({}),
          .searched = request.model().optimal(GroupRules(scene.setting.workload)),
          .is_straight = request.transfers.front().is_monotone(core::CollectiveKind::all_reduce)};
}

void check_alike(std::uint32_t first_seed, std::uint32_t seeds, std::uint32_t max) {
  std::uint32_t straight = 0;
  for (std::uint32_t seed = first_seed; seed < first_seed + support::seeds(seeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scale& scale = kScales[seed % std::size(kScales)];
    Conditions conditions;
    conditions.read_us = random.one_in(3) ? scale.us : 0;
    conditions.read_is_overlapped = false;
    const core::Profile profile = random_gradients(random, scale, max);
    const Scene scene(profile, random_network(random, scale), 2, conditions);
    const Planned planned = plan(scene, random.one_in(5) ? "after_backward" : "wfbp");
    straight += planned.is_straight ? 1 : 0;
    CHECK(planned.at_once.value == planned.searched.value);
    REQUIRE(planned.at_once.groups == planned.searched.groups);
    CHECK(planned.at_once.largest_front == planned.searched.largest_front);
    CHECK(planned.at_once.optimality_gap == sim::Time::zero());
  }
  CHECK(straight > support::seeds(seeds) * 3 / 4);
}

TEST_CASE("straight channel: the groups are those of the search, whatever the curve") {
  check_alike(0, 12000, 12);
  check_alike(100000, 3000, 70);
  check_alike(200000, 60, 600);
}

/// Curves of both halves, or a link whose startup is mostly long enough for two groups to take more than one.
core::Network random_halves(Random& random, const Scale& scale) {
  if (random.one_in(2))
    return support::pair_of(scale.us_per_byte * random.below(3000) / 3,
                            scale.us_per_byte * random.below(100) / 9);
  core::Network network = {.name = "n"};
  for (const auto kind : {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
                          core::CollectiveKind::all_gather})
    network.measured.push_back(
        {.collective = kind, .workers = 2, .curve = random_rising_curve(random, scale)});
  return network;
}

void check_two_alike(std::uint32_t first_seed, std::uint32_t seeds, std::uint32_t max) {
  for (std::uint32_t seed = first_seed; seed < first_seed + support::seeds(seeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scale& scale = kScales[seed % std::size(kScales)];
    Conditions conditions;
    conditions.optimizer_us = random.one_in(3) ? scale.us : 0;
    const core::Profile profile = random_gradients(random, scale, max);
    const Scene scene(profile, random_halves(random, scale), 2, conditions);
    const Planned planned = plan(scene, random.one_in(4) ? "zero" : "dear");
    CHECK(planned.at_once.value == planned.searched.value);
    REQUIRE(planned.at_once.groups == planned.searched.groups);
    CHECK(planned.at_once.optimality_gap <= planned.searched.optimality_gap);
  }
}

TEST_CASE("straight channels: the groups of two halves are those of the search, whatever the curves") {
  check_two_alike(0, 6000, 12);
  check_two_alike(100000, 300, 70);
}

TEST_CASE("straight channel: a curve that falls is left to the search") {
  // 4 bytes take 9 us and 8 bytes 1 us: both together, although they are ready at different times.
  const Scene scene(support::gradients_of({{1, 4}, {2, 4}}), support::measured_of({{4, 9}, {8, 1}, {9, 1}}));
  const Planned planned = plan(scene, "wfbp");
  CHECK_FALSE(planned.is_straight);
  CHECK(planned.at_once.groups == Groups{{.begin = 0, .end = 2}});
}

TEST_CASE("straight channel: earliest ends drawn by hand") {
  // ready   1   3   4       2 us and 1 us for each 4 bytes
  // bytes   4   4   8
  // {1} 1..4; {2} 4..7, {1 2} 3..7; {3} 7..11, {2 3} 4..9, {1 2 3} 4..10
  const std::vector<std::int64_t> bytes_before = {0, 4, 8, 16};
  const core::CostCurve curve = core::CostCurve::affine(2, 0.25);
  const auto us = [](double time) { return sim::from_us(time); };
  const StraightChannel channel = {
      .ready = {us(1), us(3), us(4)}, .bytes_before = bytes_before, .curve = curve};
  const std::vector<sim::Time> ends = earliest_ends(channel);
  CHECK(ends == std::vector<sim::Time>{us(0), us(4), us(7), us(9)});
  // {3} from 5, {2 3} from 4, which is when its last gradient is ready; {1 2 3} would have to begin before
  // that
  CHECK(latest_starts(channel, ends, us(9)) == std::vector<sim::Time>{us(1), us(4), sim::Time::min(), us(9)});
  CHECK(simplest_groups(channel, ends, us(9)) == Groups{{.begin = 0, .end = 1}, {.begin = 1, .end = 3}});
  CHECK(simplest_groups(channel, ends, us(10)) == Groups{{.begin = 0, .end = 3}});
}

}  // namespace
}  // namespace planner
