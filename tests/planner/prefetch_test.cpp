// dear with `prefetch`: complete timelines computed by hand, and the planner's results.

#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using support::check_run;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

// Each phase of an all-reduce takes 3 us for each of the first two layers and 20 us for the third (group 1).
core::Profile long_first_layer() { return profile_of({{10, 1, {10}}, {1, 1, {10}}, {1, 1, {95}}}); }

std::string dear(const char* prefetch) {
  return fmt::format(R"({{"pipeline": "dear", "prefetch": {}}})", prefetch);
}

TEST_CASE("prefetch: an all-gather is issued when forward has waited for the one before") {
  // compute: B3 B2 B1          F1'             F2'         F3'
  // channel:    [S1][S2][S3][G3][G2]           [ G1       ]
  const Scene scene(long_first_layer(), pair_of(2, 0.1), 2, {.iterations = 2});
  check_run(dear("1"), scene,
            {"F1 0-10, F2 10-11, F3 11-12, B3 12-13, B2 13-14, B1 14-15, "
             "F1 42-52, F2 52-53, F3 72-73, B3 73-74, B2 74-75, B1 75-76, "
             "F1 103-113, F2 113-114, F3 133-134",
             "S1 13-33, S2 33-36, S3 36-39, G3 39-42, G2 42-45, G1 52-72, "
             "S1 74-94, S2 94-97, S3 97-100, G3 100-103, G2 103-106, G1 113-133",
             61});
}

TEST_CASE("prefetch: so many all-gathers are issued beyond those that forward has waited for") {
  const std::string compute =
      "F1 0-10, F2 10-11, F3 11-12, B3 12-13, B2 13-14, B1 14-15, F1 42-52, F2 52-53, F3 65-66";
  const std::string channel = "S1 13-33, S2 33-36, S3 36-39, G3 39-42, G2 42-45, G1 45-65";
  const Scene scene(long_first_layer(), pair_of(2, 0.1), 2, {.iterations = 1});
  check_run(dear("2"), scene, {compute, channel, 54});
  check_run(dear("1000000"), scene, {compute, channel, 54});
  check_run(R"({"pipeline": "dear"})", scene, {compute, channel, 54});
}

TEST_CASE("prefetch: what has been waited for need not have been updated") {
  // 46 us of update: 4 for each of the first two layers, 38 for the third
  const Scene scene(long_first_layer(), pair_of(2, 0.1), 2, {.iterations = 1, .optimizer_us = 46});
  check_run(dear("1"), scene,
            {"F1 0-10, F2 10-11, F3 11-12, B3 12-13, B2 13-14, B1 14-15, "
             "U3 42-46, F1 46-56, U2 56-60, F2 60-61, U1 76-114, F3 114-115",
             "S1 13-33, S2 33-36, S3 36-39, G3 39-42, G2 42-45, G1 56-76", 103});
}

TEST_CASE("prefetch: several groups of a layer are waited for one after another") {
  // three tensors of 3 us each: no compute lies between them, so nothing is lost
  const Scene scene(profile_of({{1, 1, {10, 10, 10}}}), pair_of(2, 0.1), 2, {.iterations = 1});
  check_run(dear("1"), scene,
            {"F1 0-1, B1 1-2, F1 20-21", "S1 2-5, S2 5-8, S3 8-11, G3 11-14, G2 14-17, G1 17-20", 20});
}

TEST_CASE("prefetch: with jitter an all-gather waits until every worker has come so far") {
  const Scene scene(long_first_layer(), pair_of(2, 0.1), 2,
                    {.iterations = 2, .jitter = {.sigma = 0.5, .seed = 3}});
  const Run run = scene.run(schedule_of(dear("1")));
  const auto tasks = run.lowered.graph.tasks();
  for (std::uint32_t iteration = 0; iteration < 2; ++iteration) {
    sim::Time second_layer{};  // when the last worker begins it, and gathered before that
    sim::Time last_gather{};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskLabel label = TaskLabel::unpack(tasks[i].label);
      if (label == TaskLabel{TaskLabel::Kind::forward, iteration + 1, 0})
        second_layer = std::max(second_layer, run.timeline.spans[i].end);
      if (label == TaskLabel{TaskLabel::Kind::all_gather, iteration, 0})
        last_gather = run.timeline.spans[i].start;
    }
    CHECK(last_gather >= second_layer);
  }
}

TEST_CASE("prefetch: fewer ahead never shorten an iteration, and enough are as good as unlimited") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 9);
    const core::Network network = support::random_link(random);
    const Scene scene(profile, network, random.between(1, 9), support::random_conditions(random));
    const auto time = [&](const std::string& members) {
      return scene.run(schedule_of(R"({"pipeline": "dear")" + members + "}")).metrics.iteration_us;
    };
    const double unlimited = time("");
    double before = time(R"(, "prefetch": 1)");
    for (const int ahead : {2, 3, 5, 27}) {
      const double now = time(fmt::format(R"(, "prefetch": {})", ahead));
      CHECK(now <= before);
      before = now;
    }
    CHECK(before == unlimited);
  }
}

/// Long layers after short ones, and large after small, in any order: a limit may leave the channel idle
/// during compute.
Scene uneven_scene(Random& random) {
  std::vector<support::LayerSpec> layers(3 + random.below(6));
  for (support::LayerSpec& layer : layers)
    layer = {.forward_us = random.one_in(2) ? 1.0 : 40.0,
             .backward_us = 1.0 + random.below(40),
             .elements = {random.one_in(2) ? random.between(1, 20) : random.between(2000, 9000)}};
  return Scene(profile_of(layers), support::link_of(random.below(4), 0.0025), random.between(2, 5));
}

TEST_CASE("prefetch: what a planner sees is what is simulated") {
  const Scene scene(long_first_layer(), pair_of(2, 0.1));
  const Schedule schedule = schedule_of(dear("1"));
  const FusionRequest request = request_of(scene.setting, schedule);
  CHECK(evaluate(request, support::fuse(R"("none")", scene)) == sim::from_us(61));
  int limited = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene any = uneven_scene(random);
    const FusionRequest with = request_of(any.setting, schedule);
    const Schedule unlimited = schedule_of(R"({"pipeline": "dear"})");
    const FusionRequest without = request_of(any.setting, unlimited);
    const Groups groups = support::random_groups(random, any.setting.workload.gradient_count());
    CHECK(evaluate(with, groups) == simulate_iteration(with, groups));
    limited += evaluate(with, groups) > evaluate(without, groups) ? 1 : 0;
  }
  CHECK(limited > 5);
}

TEST_CASE("prefetch: with one ahead `optimal` is the best of all groupings, and the simplest of these") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene =
        support::small_scene(random, 9, static_cast<support::NetworkKind>(seed % support::kNetworkKinds));
    const Schedule schedule = schedule_of(R"({"pipeline": "dear", "prefetch": 1, "fusion": "optimal"})");
    const FusionRequest request = request_of(scene->setting, schedule);
    const Grouping fused = schedule.fusion.fuse(request);
    CHECK(support::rank(fused.groups, evaluate(request, fused.groups)) ==
          support::best_rank(
              scene->setting.workload.gradient_count(), 1,
              [&](const Groups& groups) { return simulate_iteration(request, groups); },
              support::any_grouping));
    CHECK(fused.proof.value().optimality_gap == sim::Time::zero());
    CHECK(request.model().lower_bound() <= evaluate(request, fused.groups));
  }
}

TEST_CASE(
    "prefetch: with coding `optimal` beats what is plain and the unlimited optimum, and says how far off it "
    "may be") {
  const std::string halved =
      R"("fusion": "optimal", "compression": {"name": "half", "ratio": 0.5, "collective": "all_reduce", "encode": {"startup_us": 0.25}})";
  int heuristic = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = uneven_scene(random);
    const Schedule schedule = schedule_of(R"({"pipeline": "dear", "prefetch": 1, )" + halved + "}");
    const FusionRequest request = request_of(scene.setting, schedule);
    const Grouping fused = schedule.fusion.fuse(request);
    const Groups& found = fused.groups;
    REQUIRE(fused.proof.has_value());
    const sim::Time value = evaluate(request, found);
    sim::Time best = sim::Time::max();
    support::for_each_grouping(
        scene.setting.workload.gradient_count(), 1, support::any_grouping,
        [&](const Groups& groups) { best = std::min(best, evaluate(request, groups)); });
    CHECK(value >= best);
    CHECK(value - fused.proof->optimality_gap <= best);
    CHECK(request.model().lower_bound() <= best);
    for (const char* plain : {R"("none")", R"("all")"})
      CHECK(value <= evaluate(request, support::fuse(plain, scene, "dear")));
    const Schedule free = schedule_of(R"({"pipeline": "dear", )" + halved + "}");
    const FusionRequest bound = request_of(scene.setting, free);
    const Groups unlimited = free.fusion.fuse(bound).groups;
    CHECK(value <= evaluate(request, unlimited));
    CHECK(fused.proof->optimality_gap == value - evaluate(bound, unlimited));
    heuristic += fused.proof->optimality_gap > sim::Time::zero() ? 1 : 0;
    CHECK(scene.run(schedule).metrics.iteration_us == sim::to_us(value));
  }
  CHECK(heuristic > 5);
}

TEST_CASE("prefetch: is dear's own key, a positive integer, and told in a description") {
  CHECK(schedule_of(dear("3")).options.prefetch == 3);
  CHECK(schedule_of(dear("3")).name == "dear prefetch 3");
  CHECK(schedule_of(R"({"name": "dear-nl", "prefetch": 1})").options.prefetch == 1);
  CHECK_FALSE(schedule_of(R"("dear")").options.prefetch.has_value());
  for (const char* bad : {"0", "-1", "1.5", "true", "1000001"})
    CHECK_THROWS_WITH_AS(
        schedule_of(dear(bad)),
        fmt::format("s.json: /prefetch: expected an integer from 1 to 1000000, got {}", bad).c_str(),
        core::InputError);
  CHECK_THROWS_AS(schedule_of(R"({"pipeline": "zero", "prefetch": 1})"), core::InputError);
}

}  // namespace
}  // namespace planner
