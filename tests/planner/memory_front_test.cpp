// The fastest plans for each amount of memory: against all plans of small models, and against their bounds.

#include "planner/advise/memory_front.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/advise/memory_bound.hpp"
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/run/memory.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;

const Schedule& fsdp() {
  static const Schedule plain = support::schedule_of(R"("fsdp")");
  return plain;
}

/// One of several kinds, by number: plain or as FSDP2 does, with any number of reduce-scatters in flight, and
/// of even numbers of workers some that are sharded in pairs.
Schedule some_fsdp(std::uint32_t number, const Scene& scene) {
  Schedule out = fsdp();
  const bool as_fsdp2 = number % 2 == 1;
  out.options.pads_tensors = as_fsdp2;
  out.options.gathers_early = as_fsdp2;
  out.options.keeps_tied = as_fsdp2;
  if (number % 3 != 0) out.options.scatters_in_flight = number % 3 - 1;
  if (number % 5 < 2 && scene.setting.costs.workers() % 2 == 0) out.options.shard_workers = 2;
  return out;
}

struct Point {
  std::int64_t bytes;
  double us;
};

Point point_of(const Scene& scene, const Groups& groups, const PipelineOptions& options) {
  Schedule schedule = fsdp();
  schedule.options = options;
  const Simulated run =
      simulate_groups(scene.setting, schedule, groups, make_transfers(scene.setting, schedule), false);
  return {total(memory_of(scene.setting, run, run.timeline).peak.bytes),
          summarize(scene.setting, run).iteration_us};
}

/// Whether a group ends within a run of layers that are computed again.
bool divides_a_run(const Scene& scene, const Groups& groups) {
  if (!scene.setting.conditions.recompute) return false;
  const auto length = static_cast<std::uint32_t>(scene.setting.conditions.recompute->layers);
  const auto run_of = [&](std::uint32_t gradient) {
    return scene.setting.workload.gradients[gradient].layer / length;
  };
  return std::any_of(groups.begin() + 1, groups.end(),
                     [&](const Group& group) { return run_of(group.begin) == run_of(group.begin - 1); });
}

/// All plans of whole layers, and of whole runs of layers that are computed again.
std::vector<Point> all_points(const Scene& scene, const Schedule& schedule) {
  const Workload& workload = scene.setting.workload;
  std::vector<Point> out;
  const auto whole_layers = [&](std::uint32_t begin, std::uint32_t end) {
    const auto begins_layer = [&](std::uint32_t i) {
      return i == 0 || i == workload.gradient_count() ||
             workload.gradients[i].layer != workload.gradients[i - 1].layer;
    };
    return begins_layer(begin) && begins_layer(end);
  };
  support::for_each_grouping(workload.gradient_count(), 1, support::any_grouping, [&](const Groups& groups) {
    if (!std::ranges::all_of(groups,
                             [&](const Group& group) { return whole_layers(group.begin, group.end); }))
      return;
    if (divides_a_run(scene, groups)) return;
    const auto count = static_cast<std::uint32_t>(groups.size());
    for (std::uint32_t ahead = 0; ahead <= count; ++ahead)
      for (std::uint32_t behind = 0; behind <= count; ++behind)
        for (std::uint32_t kept = 0; kept <= count; ++kept) {
          PipelineOptions options = schedule.options;
          options.reshard_after_forward.reset();
          options.prefetch = ahead;
          options.backward_prefetch = behind;
          options.kept_groups = kept;
          out.push_back(point_of(scene, groups, options));
        }
  });
  return out;
}

core::Profile random_layers(Random& random, std::uint32_t count) {
  std::vector<support::LayerSpec> layers;
  for (std::uint32_t i = 0; i < count; ++i) {
    layers.push_back({.forward_us = static_cast<double>(random.below(100)) + 1,
                      .backward_us = static_cast<double>(random.below(200)) + 1,
                      .elements = {random.between(1, 4000)}});
    if (random.one_in(3)) layers.back().elements.push_back(random.between(1, 400));
  }
  core::Profile out = profile_of(layers);
  for (core::ProfileLayer& layer : out.layers)
    for (core::ProfileTensor& tensor : layer.tensors)
      tensor.shape = tensor.elements % 2 == 0 ? std::vector<std::int64_t>{tensor.elements / 2, 2}
                                              : std::vector<std::int64_t>{tensor.elements};
  return out;
}

TEST_CASE("memory front: of a small model it is that of all plans, and no plan beats its bounds") {
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = {.iterations = 2, .accumulation_steps = random.between(1, 2)};
    conditions.memory = MemoryOptions{.optimizer_states = random.between(0, 2)};
    if (random.one_in(3)) conditions.data_types.gather = core::Dtype::bfloat16;
    core::Profile profile = random_layers(random, 1 + random.below(3));
    if (random.one_in(2)) {
      conditions.recompute = Recompute{random.between(1, 2)};
      for (core::ProfileLayer& layer : profile.layers) layer.activation_bytes = random.below(20'000);
    }
    const Scene scene(profile, pair_of(static_cast<double>(random.below(60)), 0.01), random.between(2, 8),
                      conditions);
    const Schedule schedule = some_fsdp(seed, scene);
    const std::vector<Point> all = all_points(scene, schedule);
    const MemoryFront front = memory_front(scene.setting, schedule);
    CHECK(front.is_exact);
    REQUIRE(!front.plans.empty());
    for (std::size_t i = 1; i < front.plans.size(); ++i) {
      CHECK(front.plans[i].peak_bytes > front.plans[i - 1].peak_bytes);
      CHECK(front.plans[i].iteration_us < front.plans[i - 1].iteration_us);
    }
    for (const Point& point : all) {
      // some plan of the front is as good in both
      CHECK(std::ranges::any_of(front.plans, [&](const ShardedPlan& plan) {
        return plan.peak_bytes <= point.bytes && plan.iteration_us <= point.us;
      }));
      for (const ShardedPlan& plan : front.plans)
        if (point.bytes <= plan.peak_bytes) CHECK(point.us >= plan.lower_bound_us * (1 - 1e-9));
    }
    for (const ShardedPlan& plan : front.plans) {
      const Point again = point_of(scene, plan.groups, plan.options);
      CHECK(again.bytes == plan.peak_bytes);
      CHECK(again.us == plan.iteration_us);
    }
  }
}

/// Ties the model's output to the weight of its first layer.
void tie_ends(core::Profile& profile) {
  profile.layers.front().kind = "embedding";
  const auto activation_bytes = profile.layers.front().activation_bytes;
  profile.layers.push_back({.name = "head", .kind = "linear", .forward_us = 20, .backward_us = 40});
  profile.layers.back().activation_bytes = activation_bytes;
}

/// Conditions, layers and types at random.
Scene random_scene(Random& random, std::uint32_t layers) {
  Conditions conditions = {.iterations = 2, .accumulation_steps = random.between(1, 2)};
  conditions.memory = MemoryOptions{.optimizer_states = random.between(0, 2)};
  conditions.optimizer_us = static_cast<double>(random.below(9));
  if (random.one_in(3)) conditions.data_types.gather = core::Dtype::bfloat16;
  if (random.one_in(3)) conditions.data_types.reduce = core::Dtype::bfloat16;
  if (random.one_in(4)) conditions.overlap = {.compute_slowdown = 0.3, .communication_slowdown = 0.2};
  core::Profile profile = random_layers(random, layers);
  if (random.one_in(2))
    for (core::ProfileLayer& layer : profile.layers) layer.activation_bytes = random.below(20'000);
  if (random.one_in(2)) conditions.recompute = Recompute{random.between(1, 3)};
  const std::uint32_t one_in = random.one_in(2) ? 3 : 8;
  for (core::ProfileLayer& layer : profile.layers) {
    if (random.one_in(one_in)) layer.forward_us = 0;
    if (random.one_in(one_in)) layer.backward_us = 0;
    if (random.one_in(3))
      for (core::ProfileTensor& tensor : layer.tensors)
        tensor.backward_us = &tensor == &layer.tensors.front() ? layer.backward_us : 0;
    if (random.one_in(6) && &layer != &profile.layers.front()) layer.tensors.clear();
  }
  if (random.one_in(3)) tie_ends(profile);
  if (random.one_in(3)) support::add_frozen(random, profile);
  if (core::forward_us(profile) + core::backward_us(profile) == 0) profile.layers.back().forward_us = 1;
  return {profile, pair_of(static_cast<double>(random.below(60)), random.one_in(2) ? 0.01 : 0.001),
          random.between(2, 8), conditions};
}

/// The time in microseconds that no plan of whole layers beats, 0 if that takes too many steps; none if
/// nothing fits, or nothing that may be fast enough.
std::optional<double> relaxed_us(const Scene& scene, std::int64_t memory, const Schedule& schedule = fsdp(),
                                 const RelaxationLimits& limits = {}) {
  Groups layers = layers_with_tensors(scene.setting.workload);
  std::ranges::reverse(layers);
  const std::vector<TransferCost> transfers = make_transfers(scene.setting, schedule);
  const MemoryBound bound(scene.setting, transfers.front(), layers,
                          for_model(schedule.options, scene.setting.workload));
  std::optional<double> out;
  for (const GathersAhead ahead : kGathersAhead) {
    RelaxationLimits left = limits;
    const auto plan = bound.best(memory, ahead, left);
    if (limits.steps > left.steps) CHECK(plan.has_value() == (left.steps >= 0));
    if (!plan) return 0;
    if (!*plan) continue;
    const double us = sim::to_us((*plan)->time);
    out = std::min(out.value_or(us), us);
  }
  return out;
}

TEST_CASE("memory bound: no plan of whole layers is faster with as little memory") {
  // of each thousand such jobs one or two keep groups that no forward layer that takes time has seen gathered
  for (std::uint32_t seed = 0; seed < support::seeds(1000); ++seed) {
    CAPTURE(seed);
    Random random(2000 + seed);
    const Scene scene = random_scene(random, 1 + random.below(6));
    std::map<std::int64_t, double> fastest;  // by memory
    const Schedule schedule = some_fsdp(seed, scene);
    for (const Point& point : all_points(scene, schedule)) {
      const auto [at, is_new] = fastest.emplace(point.bytes, point.us);
      if (!is_new) at->second = std::min(at->second, point.us);
    }
    for (const auto& [bytes, us] : fastest) {
      const sim::Time slower = sim::from_us(us) + sim::from_us(0.001);
      for (const RelaxationLimits& limits : {RelaxationLimits{}, RelaxationLimits{.below = slower},
                                             RelaxationLimits{.steps = 30}, RelaxationLimits{.steps = 300}}) {
        const std::optional<double> bound = relaxed_us(scene, bytes, schedule, limits);
        REQUIRE(bound.has_value());
        CHECK(*bound <= us * (1 + 1e-9));
      }
    }
  }
}

// Backward comes last to the first layer, whose parameters and gradients alone take all of this memory. While
// they are there the gradients of the layer before are still being sent, however those are grouped.
TEST_CASE("memory bound: that some layer never fits beside others is found before groups are tried") {
  const Conditions conditions = {.iterations = 2, .memory = MemoryOptions{}};
  const Scene scene(
      profile_of({{4, 8, {100}}, {4, 8, {10}}, {4, 8, {10}}, {4, 8, {10}}, {4, 8, {10}}, {4, 8, {10}}}),
      pair_of(0, 0.05), 2, conditions);
  Groups layers = layers_with_tensors(scene.setting.workload);
  std::ranges::reverse(layers);
  const std::vector<TransferCost> transfers = make_transfers(scene.setting, fsdp());
  const MemoryBound bound(scene.setting, transfers.front(), layers, fsdp().options);
  constexpr std::int64_t kSteps = 1000;
  RelaxationLimits limits = {.steps = kSteps};
  const auto none = bound.best(bound.least_memory(), {.in_forward = true, .in_backward = true}, limits);
  CHECK((none && !*none));
  CHECK(limits.steps == kSteps);
  const auto some = bound.best(2 * bound.least_memory(), {.in_forward = true, .in_backward = true}, limits);
  CHECK((some && *some));
  CHECK(limits.steps < kSteps);
}

// Two layers of 4 us forward and 8 us backward and 10 elements (40 bytes); a gather or reduction of one takes
// 1 us. Each worker holds 20 bytes of each parameter. Gathering ahead in forward and backward, the iteration
// takes a gather, both passes and a reduction: 1 + 24 + 1 us, and while the first layer's backward pass is
// computed the second layer's gradients are sent: 40 + 40 + 40 bytes.
TEST_CASE("memory bound: without a cap compute waits for the first gather and the last reduction") {
  Conditions conditions = {.iterations = 2, .memory = MemoryOptions{}};
  const Scene scene(profile_of({{4, 8, {10}}, {4, 8, {10}}}), pair_of(0, 0.05), 2, conditions);
  CHECK(*relaxed_us(scene, 1'000'000) == 26);
  const MemoryFront front = memory_front(scene.setting, fsdp());
  CHECK(front.plans.back().iteration_us == 26);
  CHECK_FALSE(relaxed_us(scene, front.plans.front().peak_bytes / 2).has_value());
}

TEST_CASE("memory front: of a larger model it is consistent, and better than what is plain") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = {.iterations = 2};
    conditions.memory = MemoryOptions{.optimizer_states = 2};
    const Scene scene(random_layers(random, 20), pair_of(30, 0.01), 4, conditions);
    const MemoryFront front = memory_front(scene.setting, fsdp());
    CHECK_FALSE(front.is_exact);
    CHECK(front.chosen + 1 == front.plans.size());
    const Run plain = scene.run(fsdp());
    const std::int64_t bytes = total(memory_of(scene.setting, plain, plain.timeline).peak.bytes);
    CHECK(std::ranges::any_of(front.plans, [&](const ShardedPlan& plan) {
      return plan.peak_bytes <= bytes && plan.iteration_us <= plain.metrics.iteration_us;
    }));
    for (const ShardedPlan& plan : front.plans) {
      CHECK(plan.lower_bound_us <= plan.iteration_us);
      CHECK(plan.iteration_us == point_of(scene, plan.groups, plan.options).us);
    }
  }
}

TEST_CASE("memory front: it may be a single plan") {
  // Communication takes no time, so that the plan with the least memory is the fastest, too.
  Conditions conditions = {.iterations = 2};
  conditions.memory = MemoryOptions{.optimizer_states = 2};
  const Scene scene(profile_of(std::vector<support::LayerSpec>(60, {10, 20, {1}})), pair_of(0, 0), 3,
                    conditions);
  const MemoryFront front = memory_front(scene.setting, support::schedule_of(R"({"pipeline": "sharded"})"));
  REQUIRE(front.plans.size() == 1);
  CHECK(front.plans.front().iteration_us == 1800);
  CHECK(front.plans.front().lower_bound_us == 1800);
}

/// The schedules of a user who does not ask for a front, under the same options.
std::vector<Schedule> plain_schedules(const std::string& options, std::size_t layers) {
  std::vector<Schedule> out;
  for (const char* fusion : {R"("blocks")", R"("optimal")", R"("all")"})
    out.push_back(
        support::schedule_of(fmt::format(R"({{"name": "fsdp", "fusion": {}{}}})", fusion, options)));
  for (std::size_t count = 1; count <= layers; ++count)
    out.push_back(support::schedule_of(
        fmt::format(R"({{"name": "fsdp", "fusion": {{"kind": "layers", "count": {}}}{}}})", count, options)));
  return out;
}

TEST_CASE("memory front: no plan of it is beaten by groups of layers, by blocks or by the optimal plan") {
  for (std::uint32_t seed = 0; seed < support::seeds(60); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t layers = 4 + random.below(9);
    core::Profile profile = random_layers(random, layers);
    const std::uint32_t in_block = 1 + random.below(4);
    if (random.one_in(2))
      for (std::uint32_t i = 0; i < layers; ++i)
        profile.layers[i].name = fmt::format("h.{}.part{}", i / in_block, i);
    Conditions conditions = {.iterations = 2, .accumulation_steps = random.between(1, 2)};
    conditions.memory = MemoryOptions{.optimizer_states = random.between(0, 2)};
    if (random.one_in(3)) conditions.data_types.gather = core::Dtype::bfloat16;
    if (random.one_in(4)) conditions.overlap = {.compute_slowdown = 0.3, .communication_slowdown = 0.2};
    const Scene scene(profile,
                      pair_of(static_cast<double>(random.below(60)), random.one_in(2) ? 0.01 : 0.001),
                      random.between(2, 8), conditions);
    const std::string options = random.one_in(2)   ? ""
                                : random.one_in(2) ? R"(, "prefetch": 2)"
                                                   : R"(, "reshard_after_forward": false)";
    const MemoryFront front =
        memory_front(scene.setting, support::schedule_of(fmt::format(R"({{"name": "fsdp"{}}})", options)));
    std::vector<Schedule> others = plain_schedules(options, layers);
    if (options.find("reshard") == std::string::npos)
      others.push_back(support::schedule_of(fmt::format(
          R"({{"name": "fsdp", "fusion": "optimal", "reshard_after_forward": false{}}})", options)));
    for (const Schedule& schedule : others) {
      CAPTURE(schedule.name);
      const Run run = scene.run(schedule);
      const Point other = point_of(scene, run.groups, schedule.options);
      CAPTURE(other.bytes);
      CAPTURE(other.us);
      for (const ShardedPlan& plan : front.plans) {
        const bool is_beaten = other.bytes <= plan.peak_bytes && other.us < plan.iteration_us * (1 - 1e-9);
        CHECK_FALSE(is_beaten);
        const bool is_bounded = plan.units != "blocks" || schedule.fusion.kind == "blocks";
        if (is_bounded && other.bytes <= plan.peak_bytes) CHECK(other.us >= plan.lower_bound_us * (1 - 1e-9));
      }
      // plans that save less than a ten-thousandth of the memory are left out
      CHECK(std::ranges::any_of(front.plans, [&](const ShardedPlan& plan) {
        return static_cast<double>(plan.peak_bytes) <= static_cast<double>(other.bytes) * 1.0002 &&
               plan.iteration_us <= other.us * (1 + 1e-9);
      }));
    }
  }
}

TEST_CASE("memory front: no plan of whole layers is faster than the bounds of plans of layers") {
  for (std::uint32_t seed = 0; seed < support::seeds(40); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = random_scene(random, 1 + random.below(4));
    Groups layers = layers_with_tensors(scene.setting.workload);
    std::ranges::reverse(layers);
    const Schedule schedule = some_fsdp(seed, scene);
    const std::vector<TransferCost> transfers = make_transfers(scene.setting, schedule);
    const MemoryBound bound(scene.setting, transfers.front(), layers,
                            for_model(schedule.options, scene.setting.workload));
    for (const Point& point : all_points(scene, schedule)) {
      const std::optional<sim::Time> channel = bound.least_channel_time(point.bytes);
      REQUIRE(channel.has_value());
      CHECK(sim::to_us(*channel) <= point.us * (1 + 1e-9));
    }
  }
}

TEST_CASE(
    "memory front: the fastest plan within the cap is chosen, and one that nothing keeps to is refused") {
  Conditions conditions = {.iterations = 1, .memory = MemoryOptions{}};
  const core::Profile profile = profile_of({{2, 5, {10}}, {3, 4, {20}}});
  const Scene scene(profile, pair_of(2, 0.1), 2, conditions);
  const MemoryFront all = memory_front(scene.setting, fsdp());
  REQUIRE(all.plans.size() > 1);
  CHECK(all.chosen == all.plans.size() - 1);
  for (std::size_t i = 0; i < all.plans.size(); ++i) {
    conditions.memory->cap_bytes = all.plans[i].peak_bytes;
    CHECK(memory_front(Scene(profile, pair_of(2, 0.1), 2, conditions).setting, fsdp()).chosen == i);
  }
  conditions.memory->cap_bytes = all.plans.front().peak_bytes - 1;
  const Scene small(profile, pair_of(2, 0.1), 2, conditions);
  CHECK_THROWS_AS(memory_front(small.setting, fsdp()), Unsupported);
  CHECK_THROWS_AS(memory_front(scene.setting, support::schedule_of(R"("ddp")")), Unsupported);
}

TEST_CASE("blocks: layers whose names agree up to their first number form a group, and runs of others") {
  core::Profile profile =
      profile_of({{1, 1, {1}}, {1, 1, {2}}, {1, 1, {3}}, {1, 1, {}}, {1, 1, {4}}, {1, 1, {5}}, {1, 1, {6}}});
  const std::vector<std::string> names = {"wte",     "wpe",      "h.0.attn.c", "h.0.add",
                                          "h.0.mlp", "h.10.mlp", "ln_2"};
  for (std::size_t i = 0; i < names.size(); ++i) profile.layers[i].name = names[i];
  const Scene scene(profile, pair_of(2, 0.1));
  std::string got;
  for (const Group& group : support::fuse(R"("blocks")", scene))
    got += fmt::format("{} ", group.end - group.begin);
  CHECK(got == "1 1 2 2 ");
  const Scene plain(profile_of({{1, 1, {1}}}), pair_of(2, 0.1));
  const Run run = plain.run(support::schedule_of(R"("fsdp2")"));
  CHECK(run.groups.size() == 1);
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings.front().text ==
        "fusion blocks: no layer of 'm' has a name that numbers its block, as layers.0.mlp; each layer is a "
        "group");
}

TEST_CASE("memory front: activations whose sum 64 bits may not count are refused before they are added") {
  core::Profile profile = profile_of(std::vector<support::LayerSpec>(20, {1, 1, {4}}));
  for (core::ProfileLayer& layer : profile.layers) layer.activation_bytes = 800'000'000'000'000'000;
  const Scene scene(profile, pair_of(2, 0.1), 2, {.memory = MemoryOptions{}});
  CHECK_THROWS_WITH_AS((void)memory_front(scene.setting, fsdp()),
                       "expected at most 4e+18 bytes of activations in all, got 1.6e+19", core::Unsupported);
}

}  // namespace
}  // namespace planner
