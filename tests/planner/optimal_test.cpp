// The exact planner against all 2^(n-1) groupings, including its tie rule, and against simulation.

#include "planner/choose/iteration.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using sim::Time;
using support::eighths;
using support::fused;
using support::gradients_of;
using support::groups_of;
using support::NetworkKind;
using support::Offer;
using support::pair_of;
using support::pipeline_cases;
using support::PipelineCase;
using support::Random;
using support::Scene;
using support::schedule_of;
using support::small_scene;

Offer nothing_else(Random& /*random*/, const PipelineCase& /*pipeline*/) { return {}; }

Offer a_compressor(Random& random, const PipelineCase& pipeline) {
  return {.compressor = support::random_compressor(random, "x", pipeline.halves), .selective = false};
}

Offer a_selective_compressor(Random& random, const PipelineCase& pipeline) {
  return {.compressor = support::random_compressor(random, "x", pipeline.halves), .selective = true};
}

/// Calls `look` with small scenes on networks of every kind, each under every pipeline.
template <typename Look>
void for_each_scene(std::uint32_t first_seed, std::uint32_t seeds, std::uint32_t max_tensors, Look look) {
  for (std::uint32_t seed = first_seed; seed < first_seed + support::seeds(seeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, max_tensors, NetworkKind{seed % support::kNetworkKinds});
    for (const PipelineCase& pipeline : pipeline_cases()) look(random, *scene, pipeline);
  }
}

void check_all_optimal(std::uint32_t first_seed, std::uint32_t seeds, std::uint32_t max_tensors,
                       Offer (*offer)(Random&, const PipelineCase&)) {
  for_each_scene(first_seed, seeds, max_tensors,
                 [&](Random& random, const Scene& scene, const PipelineCase& pipeline) {
                   support::check_optimal(scene, pipeline, offer(random, pipeline), support::any_grouping);
                 });
}

TEST_CASE("optimal: planner, simulator and the contract's words give any groups the same value") {
  for_each_scene(0, 700, 11, [](Random& random, const Scene& scene, const PipelineCase& pipeline) {
    Offer offer = a_compressor(random, pipeline);
    offer.selective = random.one_in(3);
    offer.algorithms = {"recursive_doubling", "binary_tree"};
    offer.compressors = {planner::Compressor{}, support::random_compressor(random, "y", pipeline.halves)};
    const Schedule schedule = schedule_of(offer.json(pipeline));
    const FusionRequest request = request_of(scene.setting, schedule);
    const support::Reference reference(scene, pipeline.name, pipeline.overlap_gather, offer.transfers());
    for (int repeats = 0; repeats < 4; ++repeats) {
      Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
      for (Group& group : groups)
        group.transfer = random.below(static_cast<std::uint32_t>(request.transfers.size()));
      support::check_value(request, reference, groups);
    }
  });
}

TEST_CASE("optimal: is the best of all groupings and the simplest of the best") {
  check_all_optimal(10000, 3000, 11, nothing_else);
}

TEST_CASE("optimal: is the best of all groupings when a compressor encodes and decodes them") {
  check_all_optimal(20000, 4000, 10, a_compressor);
}

TEST_CASE("optimal: is the best of all groupings when only those are compressed that are sooner there") {
  check_all_optimal(30000, 3000, 10, a_selective_compressor);
}

/// The simulation of a grouping: iteration time, number of groups, size of the first group.
using Simulated = std::tuple<double, std::int64_t, std::uint32_t>;

Simulated simulated(const Scene& scene, const Schedule& schedule) {
  const Run run = scene.run(schedule);
  return {run.metrics.iteration_us, run.metrics.groups, run.groups.front().end};
}

Simulated best_simulated(const Scene& scene, Schedule schedule) {
  Simulated best = {1e99, 0, 0};
  const std::uint32_t count = scene.setting.workload.gradient_count();
  for (std::uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
    const Groups groups = groups_of(cuts, count);
    schedule.fusion.fuse = [&](const FusionRequest&) { return groups; };
    best = std::min(best, simulated(scene, schedule));
  }
  return best;
}

TEST_CASE(
    "optimal: under every pipeline no other grouping is simulated to be faster or as fast and simpler") {
  for (std::uint32_t seed = 0; seed < support::seeds(400); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = support::random_conditions(random);
    conditions.iterations = 2;
    conditions.read_is_overlapped = false;  // overlapped reading would hide the gain
    const std::int64_t workers = random.between(1, 9);
    const Scene scene(support::random_profile(random, 5),
                      support::small_network(random, NetworkKind{seed % support::kNetworkKinds}, workers),
                      workers, conditions);
    if (scene.setting.workload.gradient_count() > 7) continue;
    for (const PipelineCase& pipeline : pipeline_cases()) {
      const Offer offer = seed % 2 == 0 ? a_compressor(random, pipeline) : Offer{};
      const std::string json = offer.json(pipeline);
      CAPTURE(json);
      const Schedule schedule = schedule_of(json);
      CHECK(simulated(scene, schedule) == best_simulated(scene, schedule));
    }
    for (const char* more : {"", R"(, "overlap_gather": false)"}) {
      const Schedule schedule = schedule_of(fmt::format(
          R"({{"pipeline": "zero", "all_reduce_gradients": true, "fusion": "optimal"{}}})", more));
      CHECK((scene.setting.conditions.overlap.slows() ||
             scene.run(schedule).proof.value().optimality_gap == sim::Time::zero()));
      CHECK(simulated(scene, schedule) == best_simulated(scene, schedule));
    }
  }
}

TEST_CASE("optimal: to end before backward does gains nothing, so fewer groups are taken") {
  // 1 us per byte: single groups end at 13, one group at 15, and backward at 103
  const Scene scene(support::profile_of({{0, 100}, {0, 1, {1}}, {0, 1, {1}}, {0, 1, {1}}}), pair_of(0, 1));
  CHECK(fused(R"("optimal")", scene) == "3");
}

TEST_CASE(
    "optimal: among equals the fewest groups, then the fewest tensors in the first, then in the second") {
  // The last gradient's backward hides everything.
  CHECK(fused(R"("optimal")",
              Scene(gradients_of({{1, 4}, {1, 4}, {100, 4}}), support::measured_of({{1, 0}}))) == "3");
  // startup 2, no slope: two groups end at 11 + 2 however the first gradients are grouped; so does one group,
  // which is simpler
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {5, 4}, {5, 4}}), pair_of(2, 0))) == "3");
  // no startup, 1 us per byte: "2 1" ends at 16 as single groups do, "1 2" at 20, one group at 24
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {10, 4}}), pair_of(0, 1))) == "2 1");
  // "1 2 1" ends at 17 as single groups do, "2 1 1" at 18, "3 1" at 19
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {1, 4}, {9, 4}}), pair_of(0, 1))) ==
        "1 2 1");
}

TEST_CASE("optimal: of two groups the first is as short as may be") {
  // Messages of 8 bytes or more cost nothing: two groups of two are optimal, and so is one group.
  const core::Network free_when_large = support::measured_of({{4, 4}, {8, 0}, {9, 0}});
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {1, 4}, {1, 4}}), free_when_large)) == "4");
  // Large groups are expensive: two groups are needed; "1 3" and "3 1" end later than "2 2".
  const core::Network dear_when_large = support::measured_of({{4, 1}, {8, 1}, {12, 30}});
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {0, 4}, {0, 4}, {0, 4}}), dear_when_large)) ==
        "2 2");
  // "1 2" and "2 1" end at the same time
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {0, 4}, {0, 4}}), dear_when_large)) == "1 2");
}

/// When the collectives of the first iteration have ended, counted from the start of its backward pass.
Time simulated_end(const Scene& scene, const Run& run) {
  Time end{};
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    if (label.kind == TaskLabel::Kind::all_reduce && label.iteration == 0)
      end = std::max(end, run.timeline.spans[i].end);
  }
  return end - scene.setting.workload.forward_total;
}

TEST_CASE(
    "optimal: the case in which the greedy of the paper gives 7.8, each alone 8.1 and the optimum 7.0") {
  // a = 1, b = 1, four layers of size 0.8 and backward 0.9, a tenth of a unit per byte
  const Scene scene(gradients_of({{0.9, 8}, {0.9, 8}, {0.9, 8}, {0.9, 8}}), pair_of(1, 0.1));
  const auto end = [&](const char* schedule) {
    return sim::to_us(simulated_end(scene, scene.run(schedule_of(schedule))));
  };
  CHECK(fused(R"("mg-wfbp")", scene) == "4");
  CHECK(end(R"("mg-wfbp")") == 7.8);
  CHECK(fused(R"("optimal")", scene) == "1 3");
  CHECK(end(R"("fusewise")") == 7.0);
  CHECK(end(R"("wfbp")") == 8.1);
}

/// Every kind of fusion except plan files and partitions.
std::vector<std::string> other_fusions() {
  std::vector<std::string> out;
  for (const FusionKind& kind : fusion_kinds())
    if (kind.name != "plan" && kind.name != "optimal" && kind.name != "partitions")
      out.push_back('"' + std::string(kind.name) + '"');
  for (const char* cap : {"100", "3000", "20000"})
    for (const char* kind : {"buckets", "threshold", "modules"})
      out.push_back(fmt::format(R"({{"kind": "{}", "cap_bytes": {}}})", kind, cap));
  out.emplace_back(R"({"kind": "threshold", "cycle_us": 20})");
  for (const char* count : {"2", "3"})
    for (const char* kind : {"layers", "groups"})
      out.push_back(fmt::format(R"({{"kind": "{}", "count": {}}})", kind, count));
  return out;
}

TEST_CASE("optimal: no other kind of fusion ever gives a shorter iteration, whatever the conditions") {
  for (std::uint32_t seed = 0; seed < support::seeds(150); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 12);
    const std::int64_t workers = 2 + random.below(12);
    const core::Network network = random.one_in(3)
                                      ? support::small_network(random, NetworkKind::jagged, workers)
                                      : support::random_link(random);
    const Scene scene(profile, network, workers, support::random_conditions(random));
    for (const Pipeline& pipeline : pipelines()) {
      // priority has no exact planner, and sharded is tested in sharded_test.cpp
      if (pipeline.name == "priority" || pipeline.name == "sharded") continue;
      const auto time_of = [&](const std::string& fusion) {
        const std::string json = fmt::format(R"({{"pipeline": "{}", "fusion": {}}})", pipeline.name, fusion);
        return scene.run(schedule_of(json)).metrics.iteration_us;
      };
      const double best = time_of(R"("optimal")");
      for (const std::string& fusion : other_fusions()) {
        CAPTURE(pipeline.name);
        CAPTURE(fusion);
        CHECK(best <= time_of(fusion));
      }
    }
  }
}

/// When the last collective of wfbp ends if the channel is free from the start.
Time end_of(const Groups& groups, const Workload& workload, const CollectiveCost& cost) {
  Time channel{};
  for (const Group& group : groups)
    channel = std::max(channel, workload.gradients[group.end - 1].ready) +
              cost.time(workload.bytes_before[group.end] - workload.bytes_before[group.begin]);
  return channel;
}

TEST_CASE("optimal: a plan of ten thousand compressed gradients is exact") {
  std::mt19937 random(7);
  std::vector<support::LayerSpec> layers(10'000);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].elements = {
        static_cast<std::int64_t>(i % 3 == 0 ? 1000 + random() % 1'000'000 : 64 + random() % 2000)};
    layers[i].backward_us = 1 + 0.04 * static_cast<double>(random() % 1000);
    layers[i].forward_us = layers[i].backward_us / 2;
  }
  const Scene scene(support::profile_of(layers), support::link_of(45.25, 0.00099), 64);
  const Schedule schedule = schedule_of(R"({"fusion": "optimal", "compression": "dgc"})");
  const OptimalGroups found = request_of(scene.setting, schedule).model().optimal({});
  CHECK(found.groups.size() == 5);
  CHECK(found.optimality_gap == sim::Time::zero());
}

TEST_CASE("optimal: a thousand gradients are planned, and no group of them is worth merging or cutting") {
  Random random(1);
  std::vector<std::pair<double, std::int64_t>> gradients(1000);
  for (auto& [backward_us, bytes] : gradients) {
    backward_us = eighths(random, 80);
    bytes = 4 * random.between(1, 1000);
  }
  const Scene scene(gradients_of(gradients), pair_of(20, 0.002));
  const Workload& workload = scene.setting.workload;
  const CollectiveCost& cost = scene.setting.costs.of(core::CollectiveKind::all_reduce);
  const Schedule schedule = schedule_of(R"("fusewise")");
  const OptimalGroups found = request_of(scene.setting, schedule).model().optimal({});
  CHECK(support::covers(found.groups, workload));
  for (std::size_t i = 0; i + 1 < found.groups.size(); ++i) {
    Groups merged = found.groups;
    merged[i].end = merged[i + 1].end;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    CHECK(end_of(merged, workload, cost) > found.value - workload.forward_total);
  }
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    Groups cut;
    for (const Group& group : found.groups) {
      cut.push_back(group);
      if (group.begin >= i || i >= group.end) continue;
      cut.back().end = i;
      cut.push_back({.begin = i, .end = group.end});
    }
    REQUIRE(end_of(cut, workload, cost) >= found.value - workload.forward_total);
  }
}

}  // namespace
}  // namespace planner
