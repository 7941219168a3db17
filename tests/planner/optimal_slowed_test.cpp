// The planner under overlap slow-down: equal to the best of all simulated groupings if it is exact; otherwise
// better than plain groupings and within its bound.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using sim::Time;
using support::groups_of;
using support::NetworkKind;
using support::Offer;
using support::pipeline_cases;
using support::PipelineCase;
using support::Random;
using support::Scene;
using support::schedule_of;

Overlap sampled_overlap(Random& random) {
  Overlap out = {.compute_slowdown = random.below(9) / 4.0, .communication_slowdown = random.below(9) / 4.0};
  if (!out.slows()) out.compute_slowdown = 0.3;
  return out;
}

/// A random offer, sometimes with a compressor and a choice of all-reduce.
Offer random_offer(Random& random, const PipelineCase& pipeline, bool decodes) {
  Offer out;
  if (decodes || random.one_in(2)) out.compressor = support::random_compressor(random, "x", pipeline.halves);
  out.compressor.decode = {};
  if (decodes) out.compressor.decode = {.startup_us = support::eighths(random, 60), .floor_us = 0.5};
  out.selective = random.one_in(4);
  if (random.one_in(3)) out.algorithms = {"recursive_doubling"};
  return out;
}

Time best_simulated(const FusionRequest& request) {
  const auto transfers = static_cast<std::uint32_t>(request.transfers.size());
  const auto value = [&](const Groups& groups) { return simulate_iteration(request, groups); };
  return std::get<Time>(
      support::best_rank(request.workload.gradient_count(), transfers, value, support::any_grouping));
}

/// Calls `look` with random scenes, each under every pipeline.
template <typename Look>
void for_each_slowed(std::uint32_t first_seed, std::uint32_t seeds, bool decodes, Look look) {
  for (std::uint32_t seed = first_seed; seed < first_seed + support::seeds(seeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Overlap overlap = sampled_overlap(random);
    const auto scene = small_scene(random, 6, NetworkKind{seed % support::kNetworkKinds}, overlap);
    for (const PipelineCase& pipeline : pipeline_cases()) {
      const std::string json = random_offer(random, pipeline, decodes).json(pipeline);
      CAPTURE(json);
      look(random, *scene, schedule_of(json));
    }
  }
}

bool gathers_under_forward(const Schedule& schedule) {
  return schedule.pipeline->name == "dear" ||
         (schedule.pipeline->name == "zero" && schedule.options.overlap_gather);
}

/// Simulated times are rounded when rates change.
Time rounding(const FusionRequest& request) { return Time(request.workload.gradient_count() + 4); }

TEST_CASE("slowed: without decoding, and with gathers apart, nothing is simulated to be faster") {
  for_each_slowed(0, 2000, false, [](Random& random, const Scene& scene, const Schedule& schedule) {
    if (gathers_under_forward(schedule)) return;
    const FusionRequest request = request_of(scene.setting, schedule);
    const OptimalGroups found = request.model().optimal({});
    CAPTURE(support::shown(found.groups));
    REQUIRE(support::covers(found.groups, scene.setting.workload));
    const Time best = best_simulated(request);
    CHECK(found.value <= best + rounding(request));
    CHECK(found.value >= best - rounding(request));
    CHECK(simulate_iteration(request, found.groups) <= best + rounding(request));
    CHECK(request.model().value(found.groups) == found.value);
    CHECK(found.optimality_gap == Time::zero());
    CHECK(request.model().lower_bound() <= best + rounding(request));

    Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
    for (Group& group : groups)
      group.transfer = random.below(static_cast<std::uint32_t>(request.transfers.size()));
    const Time apart = request.model().value(groups) - simulate_iteration(request, groups);
    CHECK(std::max(apart, -apart) <= rounding(request));
  });
}

/// Checks the guarantees of a heuristic plan.
void check_heuristic(const Scene& scene, const Schedule& schedule) {
  const FusionRequest request = request_of(scene.setting, schedule);
  const OptimalGroups found = request.model().optimal({});
  CAPTURE(support::shown(found.groups));
  REQUIRE(support::covers(found.groups, scene.setting.workload));
  CHECK(simulate_iteration(request, found.groups) == found.value);
  Conditions unslowed = scene.setting.conditions;
  unslowed.overlap = {};
  const Setting setting(scene.profile, scene.network, scene.setting.costs.workers(),
                        scene.setting.costs.algorithm(), unslowed);
  const OptimalGroups without = request_of(setting, schedule).model().optimal({});
  CHECK(found.value <= simulate_iteration(request, without.groups));
  const Time best = best_simulated(request);
  CHECK(found.value >= best);
  CHECK(found.value - found.optimality_gap <= best + rounding(request));
  CHECK(request.model().lower_bound() <= best + rounding(request));
}

TEST_CASE("slowed: with gathers under forward no worse than what is best unslowed, within its bound") {
  for_each_slowed(10000, 1200, false, [](Random& /*random*/, const Scene& scene, const Schedule& schedule) {
    if (gathers_under_forward(schedule)) check_heuristic(scene, schedule);
  });
}

TEST_CASE("slowed: with decoding no worse than what is best unslowed, within its bound") {
  for_each_slowed(20000, 600, true, [](Random& /*random*/, const Scene& scene, const Schedule& schedule) {
    check_heuristic(scene, schedule);
  });
}

/// From the optimum without slow-down alone the search would stop at "2 2", which takes 76; each gradient
/// alone takes 73.5.
TEST_CASE("slowed: never worse than all in one group or each gradient alone") {
  const Scene scene(support::profile_of({{5, 12, {3}}, {8, 2, {3}}, {11, 3, {2}}, {2, 8, {1}}}),
                    support::pair_of(1, 1), 2, {.overlap = {.communication_slowdown = 1}});
  const Schedule schedule = schedule_of(R"("fusewise-dear")");
  const FusionRequest request = request_of(scene.setting, schedule);
  const Time found = request.model().optimal({}).value;
  CHECK(found <= simulate_iteration(request, groups_of(0b000, 4)));
  CHECK(found <= simulate_iteration(request, groups_of(0b111, 4)));
}

TEST_CASE("slowed: one worker is slowed down by nothing") {
  Random random(3);
  const Scene scene(support::small_profile(random, 6), support::pair_of(1, 1), 1,
                    {.overlap = {.compute_slowdown = 2, .communication_slowdown = 2}});
  const Schedule schedule = schedule_of(R"("fusewise")");
  const FusionRequest request = request_of(scene.setting, schedule);
  CHECK(request.model().optimal({}).value ==
        scene.setting.workload.forward_total + scene.setting.workload.backward_total);
}

}  // namespace
}  // namespace planner
