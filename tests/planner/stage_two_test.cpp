// Gradients that each micro-batch reduces, as stage 2 of ZeRO does: timelines by hand, the planner against
// all groupings, and frameworks whose collectives are all-reduces.

#include <algorithm>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/choose/iteration.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/program.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::check_run;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

std::string stage_two(const std::string& more = {}) {
  return fmt::format(R"({{"pipeline": "zero", "stage": 2{}}})", more);
}

// Forward 2 and 3 us, backward 5 and 4 us, 40 and 80 bytes; reduce-scatter and all-gather take 5 us for layer
// 2 (group 1) and 3 us for layer 1 (group 2).
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

TEST_CASE("stage 2: each micro-batch reduces its gradients, and the next one waits for them") {
  // compute: F1 F2 B2   B1           F1 F2 B2   B1                  F1      F2
  // channel:            [ S1 ][ S2 ]            [ S1 ][ S2 ][ G2 ][ G1      ]
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .accumulation_steps = 2});
  check_run(stage_two(), scene,
            {"F1 0-2, F2 2-5, B2' 5-9, B1' 9-14, f2 17-22, B2 22-26, B1 26-31, F1 37-39, F2 42-45",
             "S1 9-14, S2 14-17, S1 26-31, S2 31-34, G2 34-37, G1 37-42", 40});
  check_run(stage_two(R"(, "overlap_gather": false)"), scene,
            {"F1 0-2, F2 2-5, B2' 5-9, B1' 9-14, f2 17-22, B2 22-26, B1 26-31",
             "S1 9-14, S2 14-17, S1 26-31, S2 31-34, G2 34-37, G1 37-42", 42});
  const Run run = scene.run(schedule_of(stage_two()));
  CHECK(run.metrics.bytes_sent_per_worker == Approx((2 * 120 + 120) / 2.0));
  CHECK(run.metrics.communication_us == Approx(24));
}

TEST_CASE("stage 2: with one micro-batch the iteration is that of stage 1, and alone nothing is reduced") {
  const Conditions twice = {.iterations = 2, .accumulation_steps = 2};
  const Scene one(two_layers(), pair_of(2, 0.1), 2, {.iterations = 2});
  CHECK(one.run(schedule_of(stage_two())).timeline == one.run(schedule_of(R"("zero")")).timeline);
  const Scene alone(two_layers(), pair_of(2, 0.1), 1, twice);
  CHECK(alone.run(schedule_of(stage_two())).metrics.iteration_us == 28);
}

TEST_CASE("stage 2: what is busy and exposed is the same whether messages are simulated or not") {
  for (const bool overlaps : {true, false})
    for (const std::int64_t iterations : {1, 3}) {
      const std::string schedule = stage_two(overlaps ? "" : R"(, "overlap_gather": false)");
      CAPTURE(schedule);
      CAPTURE(iterations);
      Conditions conditions = {.iterations = iterations, .accumulation_steps = 3};
      const Metrics closed =
          Scene(two_layers(), pair_of(2, 0.1), 2, conditions).run(schedule_of(schedule)).metrics;
      conditions.fidelity = Fidelity::steps;
      const Metrics steps =
          Scene(two_layers(), pair_of(2, 0.1), 2, conditions).run(schedule_of(schedule)).metrics;
      CHECK(closed.forward_us == 15);
      CHECK(closed.backward_us == 27);
      CHECK(steps.forward_us == Approx(closed.forward_us));
      CHECK(steps.backward_us == Approx(closed.backward_us));
      CHECK(steps.iteration_us == Approx(closed.iteration_us));
      CHECK(steps.exposed_communication_us == Approx(closed.exposed_communication_us));
    }
}

/// The simulation of a grouping: iteration time, number of groups, size of the first group.
using Simulated = std::tuple<sim::Time, std::size_t, std::uint32_t>;

Simulated simulated(const Scene& scene, const Schedule& schedule) {
  const Run run = scene.run(schedule);
  return {sim::from_us(run.metrics.iteration_us), run.groups.size(), run.groups.front().end};
}

TEST_CASE("stage 2: `optimal` is the best of all groupings, and the simplest of the best") {
  std::uint32_t slower_than_last_alone = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(400); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = {.iterations = 2, .accumulation_steps = random.between(2, 4)};
    conditions.optimizer_us = random.one_in(2) ? 3 : 0;
    const Scene scene(support::random_profile(random, 5),
                      pair_of(static_cast<double>(random.below(200)), 0.01), random.between(2, 5),
                      conditions);
    const std::string overlaps = random.one_in(2) ? "true" : "false";
    const std::string optimal = fmt::format(R"(, "overlap_gather": {}, "fusion": "optimal")", overlaps);
    const Schedule schedule = schedule_of(stage_two(optimal));
    const Run found = scene.run(schedule);
    REQUIRE(found.proof.has_value());
    CHECK(found.proof->optimality_gap == sim::Time::zero());
    Simulated best = {sim::Time::max(), 0, 0};
    Schedule given = schedule;
    support::for_each_grouping(scene.setting.workload.gradient_count(), 1, support::any_grouping,
                               [&](const Groups& groups) {
                                 given.fusion.fuse = [&](const FusionRequest&) { return groups; };
                                 best = std::min(best, simulated(scene, given));
                               });
    CHECK(simulated(scene, schedule) == best);
    given.options.stage = 1;
    given.fusion.fuse = [&](const FusionRequest&) { return found.groups; };
    const auto [last_alone, groups, first] = simulated(scene, given);
    CHECK(std::get<0>(best) >= last_alone);
    if (std::get<0>(best) > last_alone) ++slower_than_last_alone;
  }
  CHECK(slower_than_last_alone > support::seeds(200));
}

TEST_CASE("stage 2: the planner's value of any groups is the simulation's, encoded ones included") {
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Conditions conditions = {.accumulation_steps = random.between(2, 4)};
    const Scene scene(support::random_profile(random, 6),
                      pair_of(static_cast<double>(random.below(200)), 0.01), random.between(2, 5),
                      conditions);
    Schedule schedule =
        schedule_of(stage_two(fmt::format(R"(, "overlap_gather": {})", random.one_in(2) ? "true" : "false")));
    schedule.compressor = support::random_compressor(random, "x", true);
    const FusionRequest request = request_of(scene.setting, schedule);
    const Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
    CHECK(evaluate(request, groups) == simulate_iteration(request, groups));
    CHECK(request.model().lower_bound() <= evaluate(request, groups));
  }
}

Program waiting_in_each(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("wfbp").program(groups, options);
  program.one_in_flight = true;
  program.reduces_each_batch = true;
  return program;
}

Program in_each(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("after_backward").program(groups, options);
  program.reduces_each_batch = true;
  return program;
}

TEST_CASE("stage 2: micro-batches that all-reduce take as long as as many iterations") {
  for (const auto program : {waiting_in_each, in_each}) {
    const Pipeline pipeline = {.name = "each", .summary = "", .option_keys = {}, .program = program};
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const core::Profile profile = support::random_profile(random, 6);
      const core::Network network = support::random_link(random);
      const std::int64_t batches = random.between(2, 4);
      const auto iteration_us = [&](std::int64_t micro_batches, std::uint32_t groups_of) {
        const Scene scene(profile, network, 3, {.iterations = 1, .accumulation_steps = micro_batches});
        Random same(groups_of);
        const Groups groups = support::random_groups(same, scene.setting.workload.gradient_count());
        const Fusion given = {.kind = "given", .fuse = [&](const FusionRequest&) { return groups; }};
        return scene.run({.pipeline = &pipeline, .fusion = given}).metrics.iteration_us;
      };
      CHECK(iteration_us(batches, seed) ==
            Approx(static_cast<double>(batches) * iteration_us(1, seed)).epsilon(1e-9));
    }
  }
}

TEST_CASE("stage 2: robust fusion, which samples iterations reduced once, is refused") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .accumulation_steps = 2});
  CHECK_THROWS_WITH_AS(
      (void)scene.run(schedule_of(stage_two(R"(, "fusion": "robust")"))),
      "expected a fusion other than robust where each micro-batch reduces its gradients, got "
      "robust",
      core::Unsupported);
}

}  // namespace
}  // namespace planner
