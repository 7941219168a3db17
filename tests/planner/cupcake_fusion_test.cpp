// Fusion of kind cupcake: the paper's search as a schedule runs it, against the exact planner and all 2^(n-1)
// groupings, by the planner's value of a grouping.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using sim::Time;
using support::fused;
using support::gradients_of;
using support::measured_of;
using support::pair_of;
using support::Random;
using support::Scene;
using support::schedule_of;
using support::shown;

double eighths(Random& random, std::uint32_t max) { return static_cast<double>(random.below(max)) / 8; }

core::Profile random_gradients(Random& random, std::uint32_t max) {
  std::vector<std::pair<double, std::int64_t>> gradients(1 + random.below(max));
  for (auto& [backward_us, bytes] : gradients)
    backward_us = eighths(random, 80), bytes = 4 * random.between(1, 12);
  gradients.back().first += 1;  // avoids an iteration of zero length
  return gradients_of(gradients);
}

/// A compressor whose costs are whole picoseconds for every group, so they are exactly affine.
std::string random_compressor(Random& random, bool with_floor) {
  return fmt::format(
      R"({{"name": "c", "ratio": 0.25, "collective": "{}",
           "encode": {{"startup_us": {}, "us_per_byte": {}, "floor_us": {}}}}})",
      random.one_in(2) ? "all_gather" : "all_reduce", eighths(random, 40), eighths(random, 4),
      with_floor ? eighths(random, 80) : 0);
}

std::string schedule(const std::string& fusion, const std::string& compression,
                     const char* pipeline = "wfbp") {
  return fmt::format(R"({{"pipeline": "{}", "fusion": {}, "compression": {}}})", pipeline, fusion,
                     compression);
}

/// The planner's value of a schedule's groups.
Time value_of(const std::string& json, const Scene& scene) {
  const Schedule schedule = schedule_of(json);
  const FusionRequest request = request_of(scene.setting, schedule);
  return evaluate(request, schedule.fusion.fuse(request).groups);
}

Groups groups_of(const std::string& json, const Scene& scene) {
  const Schedule schedule = schedule_of(json);
  const FusionRequest request = request_of(scene.setting, schedule);
  return schedule.fusion.fuse(request).groups;
}

TEST_CASE("cupcake fusion: is as good as the exact planner's where costs are affine and decoding is free") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_gradients(random, 12), pair_of(eighths(random, 200), eighths(random, 20)));
    const std::string compression = random.one_in(4) ? R"("none")" : random_compressor(random, false);
    const Time best = value_of(schedule(R"("optimal")", compression), scene);
    for (const char* fusion : {R"("cupcake")", R"({"kind": "cupcake", "start_with_halves": false})",
                               R"({"kind": "cupcake", "prune_by_first_group": false})"})
      CHECK(value_of(schedule(fusion, compression), scene) == best);
  }
}

Time best_of_all(const std::string& json, const Scene& scene) {
  const Schedule schedule = schedule_of(json);
  const FusionRequest request = request_of(scene.setting, schedule);
  const std::uint32_t count = request.workload.gradient_count();
  Time best = Time::max();
  for (std::uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
    Groups groups = {{.begin = 0, .end = 1}};
    for (std::uint32_t i = 1; i < count; ++i) {
      if ((cuts >> (i - 1) & 1U) != 0)
        groups.push_back({.begin = i, .end = i + 1});
      else
        groups.back().end = i + 1;
    }
    best = std::min(best, evaluate(request, groups));
  }
  return best;
}

TEST_CASE("cupcake fusion: without its prunings it is the best of all groupings, whatever the costs") {
  constexpr const char* kWhole =
      R"({"kind": "cupcake", "prune_by_outcome": false, "prune_by_first_group": false})";
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<std::pair<double, double>> curve;
    for (std::uint32_t points = 1 + random.below(5); points-- > 0;)
      curve.emplace_back((curve.empty() ? 0 : curve.back().first) + 1 + random.below(40),
                         eighths(random, 400));
    const Scene scene(random_gradients(random, 9), measured_of(curve));
    const std::string json = schedule(kWhole, random_compressor(random, true));
    CHECK(value_of(json, scene) == best_of_all(json, scene));
  }
}

TEST_CASE("cupcake fusion: pruning by first group loses the best when the channel's cost has a floor") {
  // Sending takes 1 us for 4 bytes, at least 4 us; nothing is encoded. Gradient 0 is sent from 0 to 6, when 1
  // and 2 are ready.
  //   {0},{1},{2,3}: 6, 10, 14      {0},{1,2},{3}: 6, 13, 17
  const Scene scene(gradients_of({{0, 24}, {6, 16}, {0, 12}, {4, 4}}), measured_of({{16, 4}, {20, 5}}));
  CHECK(fused(R"({"kind": "cupcake", "prune_by_first_group": false})", scene) == "1 1 2");
  CHECK(fused(R"({"kind": "cupcake"})", scene) == "1 2 1");
  CHECK(fused(R"("cupcake")", scene) == "1 2 1");
  CHECK(fused(R"("optimal")", scene) == "1 1 2");
}

TEST_CASE("cupcake fusion: looks at the wfbp time line whatever the pipeline") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_gradients(random, 10), pair_of(eighths(random, 200), eighths(random, 20)));
    const std::string compression =
        R"({"name": "c", "ratio": 0.5, "encode": {"startup_us": 2}, "collective": "all_reduce"})";
    const Groups groups = groups_of(schedule(R"("cupcake")", compression), scene);
    for (const char* pipeline : {"after_backward", "dear", "zero"})
      CHECK(groups_of(schedule(R"("cupcake")", compression, pipeline), scene) == groups);
  }
}

TEST_CASE("cupcake fusion: takes decoding for more encoding") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_gradients(random, 10), pair_of(eighths(random, 200), eighths(random, 20)));
    const auto groups_with = [&](double encode_us, double decode_us) {
      return shown(groups_of(
          schedule(R"("cupcake")",
                   fmt::format(
                       R"({{"name": "c", "ratio": 0.5, "encode": {{"startup_us": {}, "us_per_byte": 0.125}},
                                                      "decode": {{"startup_us": {}, "us_per_byte": 0.25}}}})",
                       encode_us, decode_us)),
          scene));
    };
    CHECK(groups_with(2, 3) == groups_with(5, 0));
  }
}

TEST_CASE("cupcake fusion: one worker sends nothing, and all is one group") {
  const Scene scene(gradients_of(std::vector<std::pair<double, std::int64_t>>(100, {1, 4})), pair_of(1, 1),
                    1);
  CHECK(fused(R"("cupcake")", scene) == "100");
}

// ---- limits

/// Gradients 1 us apart; sending 8 bytes takes 3 + 2 us. Each alone ends at 21, halves at 16, one group and
/// "1 3" at 15, backward at 4.
Scene four_gradients() { return {gradients_of({{1, 8}, {1, 8}, {1, 8}, {1, 8}}), pair_of(3, 0.25)}; }

TEST_CASE("cupcake fusion: a search that reaches a limit fails, and says how far it came") {
  struct Case {
    const char* fusion;
    const char* message;
  };
  const std::vector<Case> cases = {
      {R"({"kind": "cupcake", "max_nodes": 1})",
       "s.json: /fusion: Cupcake's search reached its max_nodes (nodes: 1, seconds: 0.0): the best grouping "
       "so far takes 16.000 us an iteration, none can take less than 12.000"},
      {R"({"kind": "cupcake", "max_nodes": 1, "start_with_halves": false})",
       "s.json: /fusion: Cupcake's search reached its max_nodes (nodes: 1, seconds: 0.0): no grouping found "
       "yet, none can take less than 12.000 us an iteration"},
      {R"({"kind": "cupcake", "time_limit_s": 0})",
       "s.json: /fusion: Cupcake's search reached its time_limit_s (nodes: 0, seconds: 0.0): the best "
       "grouping so far takes 16.000 us an iteration, none can take less than 12.000"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(fused(each.fusion, four_gradients()), each.message, core::EnvironmentError);
}

TEST_CASE("cupcake fusion: a search that ends within its limit is whole") {
  const auto with_nodes = [](int nodes) {
    return fmt::format(R"({{"kind": "cupcake", "prune_by_outcome": false, "prune_by_first_group": false,
                            "max_nodes": {}}})",
                       nodes);
  };
  CHECK(fused(with_nodes(15), four_gradients()) == "1 3");  // 2^4 - 1 prefixes
  CHECK_THROWS_AS(fused(with_nodes(14), four_gradients()), core::EnvironmentError);
}

TEST_CASE("cupcake fusion: what does not fit the clock is refused") {
  const Scene scene(gradients_of({{1, 4}, {1, 4}}),
                    {.name = "n",
                     .measured = {{.collective = core::CollectiveKind::all_reduce,
                                   .workers = 2,
                                   .curve = core::CostCurve::through({{4, 1}, {5, 8e12}})},
                                  {.collective = core::CollectiveKind::reduce_scatter,
                                   .workers = 2,
                                   .curve = core::CostCurve::through({{4, 1}})},
                                  {.collective = core::CollectiveKind::all_gather,
                                   .workers = 2,
                                   .curve = core::CostCurve::through({{4, 1}})}}});
  CHECK_THROWS_WITH_AS(
      fused(R"("cupcake")", scene, "dear"),
      "expected times that add up to at most 9000000000000 us over all iterations, got 6.4e+13", Unsupported);
}

TEST_CASE("cupcake fusion: what is not one is refused") {
  struct Case {
    const char* text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {R"({"kind": "cupcake", "max_nodes": 0})",
       "s.json: /max_nodes: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"kind": "cupcake", "max_nodes": 2.5})",
       "s.json: /max_nodes: expected an integer from 1 to 1000000000000, got 2.5"},
      {R"({"kind": "cupcake", "time_limit_s": -1})",
       "s.json: /time_limit_s: expected a number from 0 to 1000000, got -1"},
      {R"({"kind": "cupcake", "time_limit_s": "60"})",
       R"(s.json: /time_limit_s: expected a number from 0 to 1000000, got "60")"},
      {R"({"kind": "cupcake", "prune_by_outcome": 1})",
       "s.json: /prune_by_outcome: expected true or false, got 1"},
      {R"({"kind": "cupcake", "prune_by_first_group": "no"})",
       R"(s.json: /prune_by_first_group: expected true or false, got "no")"},
      {R"({"kind": "cupcake", "start_with_halves": null})",
       "s.json: /start_with_halves: expected true or false, got null"},
      {R"({"kind": "cupcake", "max_node": 5})",
       "s.json: /max_node: expected a key among kind, prune_by_outcome, prune_by_first_group, "
       "start_with_halves, max_nodes, time_limit_s, got 'max_node', did you mean 'max_nodes'?"},
      {R"({"kind": "cupcake", "choices": {}})",
       "s.json: /choices: expected a key among kind, prune_by_outcome, prune_by_first_group, "
       "start_with_halves, max_nodes, time_limit_s, got 'choices'"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(read_fusion(core::Field::parse(each.text, "s.json")), each.message,
                         core::InputError);
}

}  // namespace
}  // namespace planner
