// Pipeline sharded: complete timelines computed by hand, and the planner's results.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/choose/iteration_models.hpp"
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

// Forward 2 and 3 us, backward 5 and 4 us. Each phase of an all-reduce takes 5 us for layer 2 (group 1 if
// layers are separate) and 3 us for layer 1 (group 2).
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

std::string sharded(const std::string& members = "") { return R"({"pipeline": "sharded")" + members + "}"; }

TEST_CASE("sharded: parameters are gathered one group ahead before each pass, gradients scattered after it") {
  // compute:       F1      F2    B2   B1
  // channel: [ G2 ][ G1    ]    [g2] [ S1 ][ S2 ]
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 2});
  check_run(sharded(), scene,
            {"F1 3-5, F2 8-11, B2 11-15, B1 15-20, F1 26-28, F2 31-34, B2 34-38, B1 38-43",
             "G2 0-3, G1 3-8, g2 11-14, S1 15-20, S2 20-23, "
             "G2 23-26, G1 26-31, g2 34-37, S1 38-43, S2 43-46",
             23});
  check_run(sharded(R"(, "fusion": "all")"), scene,
            {"F1 7-9, F2 9-12, B2 12-16, B1 16-21, F1 35-37, F2 37-40, B2 40-44, B1 44-49",
             "G1 0-7, S1 21-28, G1 28-35, S1 49-56", 28});
}

TEST_CASE("sharded: what forward used last is kept by default, all may be kept, or all gathered again") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  // backward waits for its first group, whose compute then hides the gather of the second
  check_run(
      sharded(R"(, "reshard_after_forward": true)"), scene,
      {"F1 3-5, F2 8-11, B2 16-20, B1 20-25", "G2 0-3, G1 3-8, g1 11-16, g2 16-19, S1 20-25, S2 25-28", 28});
  check_run(sharded(R"(, "reshard_after_forward": false)"), scene,
            {"F1 3-5, F2 8-11, B2 11-15, B1 15-20", "G2 0-3, G1 3-8, S1 15-20, S2 20-23", 23});
}

TEST_CASE("sharded: backward waits for a reduce-scatter if more may not be in flight") {
  // Three layers of 3 us to gather or scatter. Before the gradients of layer 2 are sent, those of layer 3
  // must have arrived, so layer 1 begins late:
  // compute:       F1   F2    F3 B3 B2    B1
  // channel: [ G3 ][ G2 ][ G1 ]    [ S1 ][ S2 ]   [ S3 ]
  const Scene scene(profile_of({{1, 8, {10}}, {1, 1, {10}}, {1, 1, {10}}}), pair_of(2, 0.1), 2,
                    {.iterations = 1});
  const std::string kept = R"(, "reshard_after_forward": false)";
  check_run(sharded(kept), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 10-11, B2 11-12, B1 12-20",
             "G3 0-3, G2 3-6, G1 6-9, S1 11-14, S2 14-17, S3 20-23", 23});
  check_run(sharded(kept + R"(, "scatters_in_flight": 1)"), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 10-11, B2 11-12, B1 14-22",
             "G3 0-3, G2 3-6, G1 6-9, S1 11-14, S2 14-17, S3 22-25", 25});
  check_run(sharded(kept + R"(, "scatters_in_flight": 2)"), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 10-11, B2 11-12, B1 12-20",
             "G3 0-3, G2 3-6, G1 6-9, S1 11-14, S2 14-17, S3 20-23", 23});
  // layer 1 has been gathered before the gradients of layer 3 are sent, and still waits for them
  check_run(sharded(R"(, "reshard_after_forward": true, "prefetch": 2, "scatters_in_flight": 1)"), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 13-14, B2 16-17, B1 22-30",
             "G3 0-3, G2 3-6, G1 6-9, g1 10-13, g2 13-16, g3 16-19, S1 19-22, S2 22-25, S3 30-33", 33});
}

// Without gathers before backward, and with them:
// compute:       F1   F2    F3 B3      B2      B1
// channel: [ G3 ][ G2 ][ G1 ]    [ S1 ]  [ S2 ]    [ S3 ]
//
// compute:       F1   F2    F3       B3           B2          B1
// channel: [ G3 ][ G2 ][ G1 ]  [ g1 ][ g2 ][ S1 ][ g3 ][ S2 ]    [ S3 ]
TEST_CASE("sharded: over Gloo backward waits for each reduce-scatter at once") {
  const Scene scene(profile_of({{1, 8, {10}}, {1, 1, {10}}, {1, 1, {10}}}), pair_of(2, 0.1), 2,
                    {.iterations = 1});
  check_run(sharded(R"(, "reshard_after_forward": false, "scatters_in_flight": 0)"), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 10-11, B2 14-15, B1 18-26",
             "G3 0-3, G2 3-6, G1 6-9, S1 11-14, S2 15-18, S3 26-29", 29});
  check_run(sharded(R"(, "reshard_after_forward": true, "scatters_in_flight": 0)"), scene,
            {"F1 3-4, F2 6-7, F3 9-10, B3 13-14, B2 19-20, B1 25-33",
             "G3 0-3, G2 3-6, G1 6-9, g1 10-13, g2 13-16, S1 16-19, g3 19-22, S2 22-25, S3 33-36", 36});
}

TEST_CASE("sharded: what is not released after backward is gathered in the first micro-batch alone") {
  // compute:       F1      F2    B2   B1 | F1 F2 B2   B1
  // channel: [ G2 ][ G1    ]                   [ S1 ][ S2 ]
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 2, .accumulation_steps = 2});
  const std::string kept = R"(, "reshard_after_forward": false)";
  check_run(sharded(kept + R"(, "reshard_after_backward": false)"), scene,
            {"F1 3-5, F2 8-11, B2' 11-15, B1' 15-20, F1' 20-22, F2' 22-25, B2 25-29, B1 29-34, "
             "F1 40-42, F2 45-48, B2' 48-52, B1' 52-57, F1' 57-59, F2' 59-62, B2 62-66, B1 66-71",
             "G2 0-3, G1 3-8, S1 29-34, S2 34-37, G2 37-40, G1 40-45, S1 66-71, S2 71-74", 37});
  check_run(sharded(kept), scene,
            {"F1 3-5, F2 8-11, B2' 11-15, B1' 15-20, F1' 23-25, F2' 28-31, B2 31-35, B1 35-40, "
             "F1 46-48, F2 51-54, B2' 54-58, B1' 58-63, F1' 66-68, F2' 71-74, B2 74-78, B1 78-83",
             "G2 0-3, G1 3-8, G2' 20-23, G1' 23-28, S1 35-40, S2 40-43, "
             "G2 43-46, G1 46-51, G2' 63-66, G1' 66-71, S1 78-83, S2 83-86",
             43});
  // released after forward, all groups are gathered for each backward pass
  check_run(sharded(R"(, "reshard_after_forward": true, "reshard_after_backward": false, "fusion": "all")"),
            scene,
            {"F1 7-9, F2 9-12, B2' 19-23, B1' 23-28, F1' 28-30, F2' 30-33, B2 40-44, B1 44-49, "
             "F1 63-65, F2 65-68, B2' 75-79, B1' 79-84, F1' 84-86, F2' 86-89, B2 96-100, B1 100-105",
             "G1 0-7, g1' 12-19, g1 33-40, S1 49-56, G1 56-63, g1' 68-75, g1 89-96, S1 105-112", 56});
}

TEST_CASE("sharded: so many groups are gathered ahead, or none") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  // a group gathered when backward reaches it queues behind the gradients of the previous group
  check_run(sharded(R"(, "prefetch": 0)"), scene,
            {"F1 3-5, F2 10-13, B2 13-17, B1 25-30", "G2 0-3, G1 5-10, S1 17-22, g2 22-25, S2 30-33", 33});
  // three layers of 4 us each, 3 us to gather: two gathers are issued at once, the third when the first layer
  // is computed
  const Scene three(profile_of({{4, 4, {10}}, {4, 4, {10}}, {4, 4, {10}}}), pair_of(2, 0.1), 2,
                    {.iterations = 1});
  check_run(sharded(), three,
            {"F1 3-7, F2 7-11, F3 11-15, B3 15-19, B2 19-23, B1 25-29",
             "G3 0-3, G2 3-6, G1 7-10, g2 15-18, S1 19-22, g3 22-25, S2 25-28, S3 29-32", 32});
  check_run(sharded(R"(, "prefetch": 2)"), three,
            {"F1 3-7, F2 7-11, F3 11-15, B3 15-19, B2 19-23, B1 23-27",
             "G3 0-3, G2 3-6, G1 6-9, g2 15-18, g3 18-21, S1 21-24, S2 24-27, S3 27-30", 30});
}

TEST_CASE("sharded: early gathers wait for an earlier group than compute has come to") {
  // Three layers of 3 us to gather or scatter. The last gather of forward needs a buffer that is free when
  // compute comes to layer 1, not when it comes to layer 2; the first of backward one that is free when
  // compute comes to layer 3 in forward:
  //
  // compute:       F1    F2    F3    B3   B2     B1
  // channel: [G3][G2][G1]   [g2]       [S1][g3][S2][S3]
  const Scene scene(profile_of({{5, 4, {10}}, {5, 4, {10}}, {5, 4, {10}}}), pair_of(2, 0.1), 2,
                    {.iterations = 1});
  check_run(sharded(), scene,
            {"F1 3-8, F2 8-13, F3 13-18, B3 18-22, B2 22-26, B1 28-32",
             "G3 0-3, G2 3-6, G1 8-11, g2 18-21, S1 22-25, g3 25-28, S2 28-31, S3 32-35", 35});
  const std::string early = R"(, "gather_early": true)";
  check_run(sharded(early), scene,
            {"F1 3-8, F2 8-13, F3 13-18, B3 18-22, B2 22-26, B1 28-32",
             "G3 0-3, G2 3-6, G1 6-9, g2 13-16, S1 22-25, g3 25-28, S2 28-31, S3 32-35", 35});
  // where layer 3 is gathered again, layer 2 needs its buffer
  check_run(sharded(early + R"(, "reshard_after_forward": true)"), scene,
            {"F1 3-8, F2 8-13, F3 13-18, B3 18-22, B2 22-26, B1 28-32",
             "G3 0-3, G2 3-6, G1 6-9, g1 13-16, g2 18-21, S1 22-25, g3 25-28, S2 28-31, S3 32-35", 35});
  // with nothing ahead of compute there is nothing early
  check_run(sharded(early + R"(, "prefetch": 0)"), scene,
            {"F1 3-8, F2 11-16, F3 19-24, B3 24-28, B2 34-38, B1 44-48",
             "G3 0-3, G2 8-11, G1 16-19, S1 28-31, g2 31-34, S2 38-41, g3 41-44, S3 48-51", 51});
}

TEST_CASE("sharded: each micro-batch gathers, only the last scatters") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .accumulation_steps = 2});
  check_run(sharded(), scene,
            {"F1 3-5, F2 8-11, B2' 11-15, B1' 15-20, F1' 23-25, F2' 28-31, B2 31-35, B1 35-40",
             "G2 0-3, G1 3-8, g2' 11-14, G2' 20-23, G1' 23-28, g2 31-34, S1 35-40, S2 40-43", 43});
  const Metrics got = scene.run(schedule_of(sharded())).metrics;
  CHECK(got.forward_us == 10);
  CHECK(got.backward_us == 18);
  CHECK(got.communication_us == 30);
  CHECK(got.exposed_communication_us == 15);
  CHECK(got.bytes_sent_per_worker == 2 * 60 + 2 * 20 + 60);  // half of 120 bytes in forward, half of 40 in
                                                             // backward
}

TEST_CASE("sharded: reading comes first, and each worker updates its shard when the channel has drained") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2,
                    {.iterations = 2, .read_us = 1, .read_is_overlapped = false, .optimizer_us = 2});
  check_run(sharded(), scene,
            {"F1 4-6, F2 9-12, B2 12-16, B1 16-21, U 24-26, F1 30-32, F2 35-38, B2 38-42, B1 42-47, U 50-52",
             "G2 1-4, G1 4-9, g2 12-15, S1 16-21, S2 21-24, "
             "G2 27-30, G1 30-35, g2 38-41, S1 42-47, S2 47-50",
             26, "", "R 0-1, R 26-27"});
  // LARS 4 us / 2 workers; the all-gather of 8 bytes takes 1 + 0.4 us
  const Scene lars(two_layers(), pair_of(2, 0.1), 2,
                   {.iterations = 1, .optimizer_us = 1, .lars_us = 4, .parallel_tensor_operator = true});
  check_run(sharded(), lars,
            {"F1 3-5, F2 8-11, B2 11-15, B1 15-20, L 23-25, U 26.4-27.4",
             "G2 0-3, G1 3-8, g2 11-14, S1 15-20, S2 20-23, H 25-26.4", 27.4});
}

TEST_CASE("sharded: a layer cut by groups waits for all of them, in both passes") {
  // group 1: l2.a and l1.b (80 bytes), group 2: l1.a (40 bytes)
  const Scene scene(profile_of({{2, 5, {10, 10}}, {3, 4, {10}}}), pair_of(2, 0.1), 2, {.iterations = 1});
  check_run(sharded(R"(, "fusion": {"kind": "buckets", "cap_bytes": 80})"), scene,
            {"F1 8-10, F2 10-13, B2 13-17, B1 17-22", "G2 0-3, G1 3-8, g2 13-16, S1 22-27, S2 27-30", 30});
  // three groups in one layer: the layer's backward pass waits for gathers that are more than one ahead
  const Scene one(profile_of({{1, 1, {10, 10, 10}}}), pair_of(2, 0.1), 2, {.iterations = 1});
  check_run(
      sharded(), one,
      {"F1 9-10, B1 16-17", "G3 0-3, G2 3-6, G1 6-9, g2 10-13, g3 13-16, S1 17-20, S2 20-23, S3 23-26", 26});
}

TEST_CASE("sharded: one worker has all parameters") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 1, {.iterations = 1, .accumulation_steps = 2});
  check_run(sharded(), scene,
            {"F1 0-2, F2 2-5, B2' 5-9, B1' 9-14, F1' 14-16, F2' 16-19, B2 19-23, B1 23-28", "", 28});
}

TEST_CASE("sharded: `optimal` beats what is plain, says how far off it may be, and is, bounds hold") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 3);
    const core::Network network = support::random_link(random);
    const Scene scene(profile, network, random.between(2, 9), support::random_conditions(random));
    const char* reshards[] = {"", R"(, "reshard_after_forward": true)",
                              R"(, "reshard_after_forward": false)"};
    const Schedule schedule =
        schedule_of(sharded(std::string(R"(, "fusion": "optimal")") + reshards[random.below(3)]));
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
    // an update by group is rounded once per group
    CHECK(request.model().lower_bound() <= best + sim::Time(scene.setting.workload.gradient_count()));
    for (const char* plain : {R"("none")", R"("all")"})
      CHECK(value <= evaluate(request, support::fuse(plain, scene)));
    CHECK(iteration_us(request, found) == doctest::Approx(scene.run(schedule).metrics.iteration_us));
  }
}

/// Any keys of a sharded schedule; `most` groups may be gathered ahead or reduce-scatters be in flight.
std::string random_keys(Random& random, std::uint32_t most) {
  std::string out = fmt::format(R"(, "fusion": "optimal", "prefetch": {}, "backward_prefetch": {})",
                                random.below(most + 1), random.below(most + 1));
  const char* kept[] = {"", R"(, "reshard_after_forward": true)", R"(, "reshard_after_forward": false)",
                        R"(, "kept_groups": 2)", R"(, "kept_groups": 3)"};
  out += kept[random.below(5)];
  if (random.one_in(2)) out += fmt::format(R"(, "scatters_in_flight": {})", random.below(most + 1));
  if (random.one_in(4)) out += R"(, "reshard_after_backward": false)";
  if (random.one_in(2)) out += R"(, "gather_early": true)";
  return sharded(out);
}

struct SmallJob {
  SmallJob(std::uint32_t seed, std::uint32_t most) : random(seed) {
    const std::int64_t workers = std::int64_t{2} << random.below(3);
    const auto kind = static_cast<support::NetworkKind>(seed % support::kNetworkKinds);
    core::Profile profile = support::small_profile(random, 8);
    if (random.one_in(2)) support::add_frozen(random, profile);
    core::Network network = support::small_network(random, kind, workers);
    Conditions conditions = support::small_conditions(random);
    conditions.accumulation_steps = random.one_in(3) ? random.between(2, 3) : 1;
    scene.emplace(std::move(profile), std::move(network), workers, conditions);
    keys = random_keys(random, most);
  }

  Random random;
  std::optional<Scene> scene;
  std::string keys;
};

TEST_CASE(
    "sharded: of whole layers `optimal` is the best grouping, in simulation, and the simplest of these") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const SmallJob job(seed, 1);
    CAPTURE(job.keys);
    const Workload& workload = job.scene->setting.workload;
    const Schedule schedule = schedule_of(job.keys);
    const FusionRequest request = request_of(job.scene->setting, schedule);
    GroupRules rules(workload);
    for (const Group& layer : layers_with_tensors(workload)) rules.keep_together(layer.begin, layer.end - 1);
    const OptimalGroups found = request.model().optimal(rules);
    CHECK(support::rank(found.groups, simulate_iteration(request, found.groups)) ==
          support::best_rank(
              workload.gradient_count(), 1,
              [&](const Groups& groups) { return simulate_iteration(request, groups); },
              [&](const Groups& groups) {
                return std::all_of(groups.begin(), groups.end(),
                                   [&](const Group& group) { return rules.allows(group.begin, group.end); });
              }));
    CHECK(found.value == simulate_iteration(request, found.groups));
    // then early backward passes differ before the last one
    const bool is_bounded = schedule.options.gathers_early && !schedule.options.reshard_after_backward &&
                            job.scene->setting.conditions.accumulation_steps > 2;
    if (!is_bounded) CHECK(found.optimality_gap == sim::Time::zero());
  }
}

TEST_CASE("sharded: no grouping of any tensors is better than its own bound, nor than that of `optimal`") {
  std::uint32_t exact = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const SmallJob job(seed, 3);
    CAPTURE(job.keys);
    const Schedule schedule = schedule_of(job.keys);
    const FusionRequest request = request_of(job.scene->setting, schedule);
    const OptimalGroups found = request.model().optimal({});
    const auto bound = sharded_bound(request);
    sim::Time best = sim::Time::max();
    support::for_each_grouping(job.scene->setting.workload.gradient_count(), 1, support::any_grouping,
                               [&](const Groups& groups) {
                                 const sim::Time value = simulate_iteration(request, groups);
                                 CHECK(bound->value(groups) <= value);
                                 best = std::min(best, value);
                               });
    CHECK(found.value >= best);
    CHECK(found.value - found.optimality_gap <= best);
    CHECK(request.model().lower_bound() <= best);
    if (found.optimality_gap == sim::Time::zero()) ++exact;
  }
  CHECK(exact > 200);
}

TEST_CASE("sharded: more groups are kept than there are only where the planner chooses their number") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  CHECK_NOTHROW(scene.run(schedule_of(sharded(R"(, "kept_groups": 2)"))));
  CHECK_NOTHROW(scene.run(schedule_of(sharded(R"(, "kept_groups": 3, "fusion": "optimal")"))));
  CHECK_THROWS_WITH_AS(scene.run(schedule_of(sharded(R"(, "kept_groups": 3)"))),
                       doctest::Contains("expected kept_groups of at most 2, the number of groups, got 3"),
                       core::Unsupported);
}

TEST_CASE("sharded: its own keys, and what it does not take") {
  const Schedule schedule = schedule_of(sharded(R"(, "prefetch": 0, "reshard_after_forward": true)"));
  CHECK(schedule.options == PipelineOptions{.prefetch = 0, .reshard_after_forward = true});
  CHECK(schedule.name == "sharded prefetch 0 reshard_after_forward true");
  CHECK(schedule_of(R"("fsdp")").pipeline->name == "sharded");
  const Schedule kept = schedule_of(R"({"name": "zero3", "kept_groups": 2, "backward_prefetch": 3})");
  CHECK(kept.options ==
        PipelineOptions{.kept_groups = 2, .backward_prefetch = 3});  // instead of the preset's
  CHECK(preset_schedule("zero3").options == PipelineOptions{.reshard_after_forward = true});
  CHECK(preset_schedule("zero2").options ==
        PipelineOptions{.overlap_gather = false, .all_reduces = true, .stage = 2});
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {sharded(R"(, "reshard_after_forward": true, "kept_groups": 1)"),
       "/kept_groups: expected either reshard_after_forward or kept_groups, got both"},
      {sharded(R"(, "prefetch": -1)"), "/prefetch: expected an integer from 0 to 1000000, got -1"},
      {sharded(R"(, "reshard_after_forward": "yes")"),
       R"(/reshard_after_forward: expected true or false, got "yes")"},
      {sharded(R"(, "compression": "fp16")"),
       R"(/compression: expected no compressor, as pipeline sharded takes none, got "fp16")"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(schedule_of(each.text), ("s.json: " + each.message).c_str(), core::InputError);
  CHECK_THROWS_AS(schedule_of(sharded(R"(, "fusion": "robust")")), core::InputError);
  CHECK_THROWS_AS(schedule_of(sharded(R"(, "overlap_gather": true)")), core::InputError);
}

}  // namespace
}  // namespace planner
