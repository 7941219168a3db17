// HSDP: complete timelines of two channels computed by hand, an independent evaluator, and what shard groups
// cost where.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/advise/make_plan.hpp"
#include "planner/choose/iteration_models.hpp"
#include "planner/cost/placement.hpp"
#include "planner/run/memory.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

constexpr core::Link kInside = {.alpha_us = 1, .beta_us_per_byte = 0.1};
constexpr core::Link kBetween = {.alpha_us = 2, .beta_us_per_byte = 0.1};

core::Network nodes_of(std::int64_t workers, const core::Link& inside, const core::Link& between,
                       bool is_shared) {
  core::Network out = {.name = "n"};
  out.levels = {{.name = "nvlink", .size = workers, .link = inside},
                {.name = "ports", .size = {}, .link = between, .shared = is_shared}};
  return out;
}

// Forward 2 and 3 us, backward 5 and 4 us; inside a node of 2 workers a reduce-scatter or all-gather takes
// 1 + M/20 us: 5 us of layer 2 (80 bytes), 3 us of layer 1 (40 bytes), as in sharded_test.cpp.
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

std::string hsdp(const std::string& members = R"(, "shard_workers": 2)") {
  return R"({"pipeline": "sharded")" + members + "}";
}

std::string between(const Scene& scene, const std::string& schedule) {
  return support::stream(scene, scene.run(schedule_of(schedule)), Lowered::channel(1));
}

// Between two nodes an all-reduce of half of a layer takes 2 x 2 us and M/2 x 0.1 us: 8 us of layer 2, 6 us
// of layer 1. Of the next iteration the first gather is shown.
//
// compute    F1   F2-B2--B1---
// inside  G2-G1---   g2- S1---S2-           G2-
// between                     A1------A2----
// us      0         10        20        30
TEST_CASE("hsdp: shares are summed over the nodes under the next reduce-scatter, then all may be gathered") {
  const Scene scene(two_layers(), nodes_of(2, kInside, kBetween, false), 4, {.iterations = 2});
  support::check_run(hsdp(), scene,
                     {"F1 3-5, F2 8-11, B2 11-15, B1 15-20, F1 37-39, F2 42-45, B2 45-49, B1 49-54",
                      "G2 0-3, G1 3-8, g2 11-14, S1 15-20, S2 20-23, "
                      "G2 34-37, G1 37-42, g2 45-48, S1 49-54, S2 54-57",
                      34});
  CHECK(between(scene, hsdp()) == "A1 20-28, A2 28-34, A1 54-62, A2 62-68");
  // Both workers of a node send through one port: 12 and 8 us.
  const Scene shared(two_layers(), nodes_of(2, kInside, kBetween, true), 4, {.iterations = 1});
  CHECK(between(shared, hsdp()) == "A1 20-32, A2 32-40");
  CHECK(between(shared, hsdp(R"(, "shard_level": "nvlink")")) == "A1 20-32, A2 32-40");
  CHECK(between(shared, R"({"name": "hsdp", "fusion": "none"})") == "A1 20-32, A2 32-40");
}

// A sum that takes long delays no reduce-scatter, and the update waits for the last sum.
// inside   S1 15-20, S2 20-23, S3 ...   between   A1 20-28, A2 28-34
TEST_CASE("hsdp: the update waits for both channels, and only the last micro-batch is summed") {
  const Scene scene(two_layers(), nodes_of(2, kInside, kBetween, false), 4,
                    {.iterations = 2, .accumulation_steps = 2, .optimizer_us = 3});
  support::check_run(hsdp(), scene,
                     {"F1 3-5, F2 8-11, B2' 11-15, B1' 15-20, F1' 23-25, F2' 28-31, B2 31-35, B1 35-40, "
                      "U 54-57, F1 60-62, F2 65-68, B2' 68-72, B1' 72-77, F1' 80-82, F2' 85-88, B2 88-92, "
                      "B1 92-97, U 111-114",
                      "G2 0-3, G1 3-8, g2' 11-14, G2' 20-23, G1' 23-28, g2 31-34, S1 35-40, S2 40-43, "
                      "G2 57-60, G1 60-65, g2' 68-71, G2' 77-80, G1' 80-85, g2 88-91, S1 92-97, S2 97-100",
                      57});
  CHECK(between(scene, hsdp()) == "A1 40-48, A2 48-54, A1 97-105, A2 105-111");
}

TEST_CASE("hsdp: what is counted: bytes, both channels, and the share of a shard group") {
  const Scene scene(two_layers(), nodes_of(2, kInside, kBetween, false), 4,
                    {.iterations = 1, .memory = MemoryOptions{.optimizer_states = 2}});
  const Run run = scene.run(schedule_of(hsdp()));
  CHECK(run.metrics.iteration_us == 34);
  CHECK(run.metrics.communication_us == 3 + 5 + 3 + 5 + 3 + 8 + 6);
  // half of 120, 40 and 120 bytes inside, and 2 x 1/2 of half of 120 bytes between
  CHECK(run.metrics.bytes_sent_per_worker == 60 + 20 + 60 + 60);
  const Memory memory = memory_of(scene.setting, run, run.timeline);
  CHECK(memory.points.front().bytes[static_cast<std::size_t>(MemoryPart::parameters)] == 60);
  CHECK(memory.points.front().bytes[static_cast<std::size_t>(MemoryPart::optimizer)] == 120);
  // What a worker holds does not depend on the number of shard groups: only shares last longer.
  const Scene one(two_layers(), nodes_of(2, kInside, kBetween, false), 2, scene.setting.conditions);
  const Run alone = one.run(schedule_of(hsdp()));
  CHECK(memory.peak.bytes == memory_of(one.setting, alone, alone.timeline).peak.bytes);
}

// G 0-7, F1 7-9, F2 9-12, B2 12-16, B1 16-21, S 21-28, A 28-38
TEST_CASE("hsdp: what is scattered is released before the sum, and shares are held until the update") {
  const Scene scene(two_layers(), nodes_of(2, kInside, kBetween, false), 4,
                    {.iterations = 1, .memory = MemoryOptions{}});
  const Run run = scene.run(schedule_of(hsdp(R"(, "shard_workers": 2, "fusion": "all")")));
  CHECK(run.metrics.iteration_us == 38);
  const auto held = [&](double us, MemoryPart part) {
    std::int64_t bytes = 0;
    for (const MemoryPoint& point : memory_of(scene.setting, run, run.timeline).points)
      if (point.at <= sim::from_us(us)) bytes = point.bytes[static_cast<std::size_t>(part)];
    return bytes;
  };
  CHECK(held(27, MemoryPart::buffers) == 120);
  CHECK(held(28, MemoryPart::buffers) == 0);
  CHECK(held(37, MemoryPart::gradients) == 60);
  CHECK(held(38, MemoryPart::gradients) == 0);
}

TEST_CASE("hsdp: with a single shard group it is FSDP") {
  for (const std::int64_t workers : {1, 2, 4}) {
    CAPTURE(workers);
    const Scene scene(two_layers(), support::link_of(1, 0.1), workers, {.iterations = 2});
    const Run alone = scene.run(schedule_of(hsdp(R"(, "shard_workers": 4)")));
    const Run plain = scene.run(schedule_of(hsdp("")));
    CHECK(alone.metrics.iteration_us == plain.metrics.iteration_us);
    CHECK(alone.metrics.communication_us == plain.metrics.communication_us);
    CHECK(alone.metrics.bytes_sent_per_worker == plain.metrics.bytes_sent_per_worker);
    const Run node = scene.run(schedule_of(R"({"name": "hsdp", "fusion": "none"})"));  // a link has no levels
    const Run fsdp2 = scene.run(schedule_of(R"({"name": "fsdp2", "fusion": "none"})"));
    CHECK(node.metrics.iteration_us == fsdp2.metrics.iteration_us);
    CHECK(node.warnings.size() == (workers > 1 ? 1 : 0));
    CHECK(make_plan(scene.setting, schedule_of(R"("hsdp")"), node).options ==
          PipelineOptions{
              .scatters_in_flight = 1, .pads_tensors = true, .gathers_early = true, .keeps_tied = true});
  }
}

// ---- an evaluator of its own

/// One micro-batch of groups of whole layers with a tensor each, all gathered before forward and kept: every
/// stream is worked off in order.
struct Evaluator {
  std::vector<double> forward, backward;            // by layer
  std::vector<double> gather, scatter, all_reduce;  // by layer
  std::size_t scatters_in_flight = 1;

  double iteration_us() const {
    const std::size_t layers = forward.size();
    double inside = 0;
    double compute = 0;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      inside += gather[layer];
      compute = std::max(compute, inside) + forward[layer];
    }
    double between = 0;
    std::vector<double> scattered;
    for (std::size_t layer = layers; layer-- > 0;) {
      compute += backward[layer];
      if (scatters_in_flight > 0 && scattered.size() >= scatters_in_flight)
        compute = std::max(compute, scattered[scattered.size() - scatters_in_flight]);
      inside = std::max(inside, compute) + scatter[layer];
      scattered.push_back(inside);
      if (scatters_in_flight == 0) compute = inside;
      between = std::max(between, inside) + all_reduce[layer];
    }
    return std::max(compute, between);
  }
};

double random_us(Random& random) { return static_cast<double>(random.below(400)) / 4; }

TEST_CASE("hsdp: as an evaluator that works off compute and two channels") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t node = random.between(2, 8);
    const std::int64_t nodes = random.between(2, 6);
    const bool is_shared = random.one_in(2);
    const core::Link inside = {.alpha_us = static_cast<double>(random.below(64)) / 16,
                               .beta_us_per_byte = static_cast<double>(random.below(64)) / 4096};
    const core::Link outside = {.alpha_us = static_cast<double>(random.below(64)) / 16,
                                .beta_us_per_byte = static_cast<double>(random.below(64)) / 4096};
    Evaluator expected;
    std::vector<support::LayerSpec> layers;
    for (std::int64_t layer = random.between(1, 6); layer-- > 0;) {
      const std::int64_t elements = random.between(1, 4000);
      layers.push_back({random_us(random) + 1, random_us(random), {elements}});
      expected.forward.push_back(layers.back().forward_us);
      expected.backward.push_back(layers.back().backward_us);
      const auto bytes = static_cast<double>(4 * elements);
      const auto n = static_cast<double>(node);
      const auto m = static_cast<double>(nodes);
      const double half = (n - 1) * inside.alpha_us + (n - 1) / n * bytes * inside.beta_us_per_byte;
      const double port = is_shared ? n * outside.beta_us_per_byte : outside.beta_us_per_byte;
      expected.gather.push_back(half);
      expected.scatter.push_back(half);
      expected.all_reduce.push_back(2 * (m - 1) * outside.alpha_us + 2 * (m - 1) / m * bytes / n * port);
    }
    const Scene scene(profile_of(layers), nodes_of(node, inside, outside, is_shared), node * nodes,
                      {.iterations = 1});
    expected.scatters_in_flight = random.below(4);
    const std::string members = fmt::format(
        R"(, "fusion": "none", "prefetch": 100, "reshard_after_forward": false, "scatters_in_flight": {})",
        expected.scatters_in_flight);
    const Run run = scene.run(schedule_of(R"({"name": "hsdp")" + members + "}"));
    CHECK(run.metrics.iteration_us == doctest::Approx(expected.iteration_us()).epsilon(1e-6));
  }
}

TEST_CASE("hsdp: `optimal` and its bound against all groupings") {
  std::uint32_t bound_by_sums = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 3);
    const std::int64_t node = random.between(2, 4);
    const core::Network network = nodes_of(node, *support::random_link(random).link,
                                           *support::random_link(random).link, random.one_in(2));
    Conditions conditions = support::random_conditions(random);
    conditions.stragglers.clear();
    const Scene scene(profile, network, node * random.between(2, 9), conditions);
    const char* reshards[] = {"", R"(, "reshard_after_forward": true)",
                              R"(, "reshard_after_forward": false)"};
    const Schedule schedule = schedule_of(
        hsdp(std::string(R"(, "shard_level": "node", "fusion": "optimal")") + reshards[random.below(3)]));
    const FusionRequest request = request_of(scene.setting, schedule);
    const Grouping fused = schedule.fusion.fuse(request);
    const sim::Time value = evaluate(request, fused.groups);
    sim::Time best = sim::Time::max();
    support::for_each_grouping(
        scene.setting.workload.gradient_count(), 1, support::any_grouping,
        [&](const Groups& groups) { best = std::min(best, evaluate(request, groups)); });
    CHECK(value >= best);
    REQUIRE(fused.proof.has_value());
    CHECK(value - fused.proof->optimality_gap <= best);
    CHECK(request.model().lower_bound() <= best + sim::Time(scene.setting.workload.gradient_count()));
    Schedule fsdp = schedule;
    fsdp.options.shard_level.reset();
    fsdp.options.shard_workers.reset();
    const auto transfers = make_transfers(scene.setting, schedule);
    const IterationSpec plain(scene.setting, *fsdp.pipeline, fsdp.options, transfers);
    if (request.model().lower_bound() > make_model(plain)->lower_bound()) ++bound_by_sums;
  }
  CHECK(bound_by_sums > 10);
}

// ---- costs

TEST_CASE("placement: every so-manieth worker passes the levels that it does not share with its group") {
  const core::Link slow = {.alpha_us = 9, .beta_us_per_byte = 0.25};
  core::Network racks = nodes_of(8, kInside, kBetween, true);
  racks.levels.back().size = 4;
  racks.levels.push_back({.name = "spine", .size = {}, .link = slow, .shared = false});
  racks.line_rate_gbps = 80;
  const auto seen = [&](std::int64_t stride) { return as_seen_by(racks, {.stride = stride}); };
  CHECK(seen(1) == racks);
  const core::Network halves = seen(4);  // two of the four workers' groups in each node
  REQUIRE(halves.levels.size() == 3);
  CHECK(halves.levels[0] == core::Level{.name = "nvlink", .size = 2, .link = kInside});
  CHECK(halves.levels[1].size == 4);
  CHECK(halves.levels[1].link.beta_us_per_byte == 0.4);
  CHECK(halves.levels[1].link.alpha_us == 2);
  CHECK(halves.levels[2] == racks.levels[2]);
  const core::Network of_nodes = seen(8);
  REQUIRE(of_nodes.levels.size() == 2);
  CHECK(of_nodes.levels[0].link.beta_us_per_byte == 0.8);
  CHECK(of_nodes.line_rate_gbps == 80);  // of the spine, where workers share nothing
  const core::Network pairs = seen(16);
  REQUIRE(pairs.levels.size() == 2);
  CHECK(pairs.levels[0].size == 2);
  CHECK(pairs.levels[0].link.beta_us_per_byte == 0.8);  // a node has 8 workers, whatever the stride
  CHECK(seen(32).levels == std::vector<core::Level>{racks.levels[2]});
  CHECK_THROWS_WITH_AS(check_placement(racks, {.stride = 1, .size = 6}),
                       "expected groups of neighbouring workers that fill or divide the 8 of level 'nvlink', "
                       "got groups of 6",
                       core::Unsupported);
  CHECK_THROWS_AS(check_placement(racks, {.stride = 1, .size = 24}), core::Unsupported);
  racks.measured = {{.collective = CollectiveKind::all_reduce, .workers = 2, .curve = {}},
                    {.collective = CollectiveKind::all_reduce, .workers = 8, .curve = {}}};
  CHECK(seen(4).measured.size() == 1);  // of two workers in a node
  CHECK(seen(8).measured.empty());
}

TEST_CASE("hsdp: a scatter, the sum of a share and a gather cost what two_level does") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t node = random.between(2, 8);
    const std::int64_t workers = node * random.between(2, 9);
    const core::Network network = nodes_of(node, *support::random_link(random).link,
                                           *support::random_link(random).link, random.one_in(2));
    const TransferCost hybrid(network, workers, {.shard_workers = node});
    const TransferCost whole(network, workers, {.all_reduce = {.name = "two_level"}});
    const std::int64_t bytes = random.between(1, 1'000'000);
    const double sum = hybrid.us(CollectiveKind::reduce_scatter, bytes) +
                       hybrid.us(CollectiveKind::all_reduce, bytes) +
                       hybrid.us(CollectiveKind::all_gather, bytes);
    CHECK(sum == doctest::Approx(whole.us(CollectiveKind::all_reduce, bytes)).epsilon(1e-9));
    CHECK(hybrid.workers() == node);
    CHECK(hybrid.is_replicated());
  }
}

TEST_CASE("hsdp: sums travel in the type in which gradients are reduced") {
  core::Profile profile = two_layers();
  profile.dtype = core::Dtype::bfloat16;
  const Scene scene(profile, nodes_of(2, kInside, kBetween, false), 4,
                    {.iterations = 1, .data_types = {.reduce = core::Dtype::float32}});
  // 60 bytes in bfloat16: G 0-4, F1 4-6, F2 6-9, B2 9-13, B1 13-18; 120 in float32: S 18-25, A of half of
  // them
  CHECK(between(scene, hsdp(R"(, "shard_workers": 2, "fusion": "all")")) == "A1 25-35");
}

// ---- what is read, written and refused

TEST_CASE("hsdp: its keys, and what is refused") {
  CHECK(preset_schedule("hsdp").options == PipelineOptions{.scatters_in_flight = 1,
                                                           .shard_level = "node",
                                                           .pads_tensors = true,
                                                           .gathers_early = true,
                                                           .keeps_tied = true});
  CHECK(schedule_of(R"({"name": "hsdp", "shard_workers": 4})").options ==
        PipelineOptions{.scatters_in_flight = 1,
                        .shard_workers = 4,
                        .pads_tensors = true,
                        .gathers_early = true,
                        .keeps_tied = true});
  CHECK(schedule_of(hsdp()).name == "sharded shard_workers 2");
  const auto refused = [](const std::string& members, const char* message) {
    CHECK_THROWS_WITH_AS(schedule_of(hsdp(members)), message, core::InputError);
  };
  refused(R"(, "shard_workers": 1)", "s.json: /shard_workers: expected an integer from 2 to 1000000, got 1");
  refused(R"(, "shard_workers": 2, "shard_level": "node")",
          "s.json: /shard_level: expected either shard_workers or shard_level, got both");

  const auto fails = [](const core::Network& network, std::int64_t workers, const std::string& schedule,
                        const Conditions& conditions, const char* message) {
    const Scene scene(two_layers(), network, workers, conditions);
    CHECK_THROWS_WITH_AS(scene.run(schedule_of(schedule)), message, core::Unsupported);
  };
  const core::Network nodes = nodes_of(4, kInside, kBetween, false);
  fails(nodes, 12, hsdp(R"(, "shard_workers": 8)"), {},
        "expected a multiple of the 8 workers of a shard group, got 12");
  fails(
      nodes, 12, hsdp(R"(, "shard_workers": 6)"), {},
      "expected groups of neighbouring workers that fill or divide the 4 of level 'nvlink', got groups of 6");
  fails(nodes, 8, hsdp(R"(, "shard_level": "rack")"), {},
        "expected a network with a level 'rack' of some size, or shard_workers in the schedule, got network "
        "'n'");
  fails(
      nodes, 8, hsdp(), {.iterations = 1, .fidelity = Fidelity::steps},
      "expected workers that are alike, where several shard groups hold the parameters, got jitter, failures "
      "or collectives rank by rank");
}

TEST_CASE("hsdp: a plan says how many workers shard, and a mesh of two dimensions is emitted") {
  const Scene scene(two_layers(), nodes_of(2, kInside, kBetween, false), 8, {.iterations = 1});
  const Schedule schedule = schedule_of(R"("hsdp")");
  const PlanFile plan = make_plan(scene.setting, schedule, scene.run(schedule));
  CHECK(plan.options == PipelineOptions{.scatters_in_flight = 1,
                                        .shard_workers = 2,
                                        .pads_tensors = true,
                                        .gathers_early = true,
                                        .keeps_tied = true});
  const PlanFile again = read_plan_file(core::Field::parse(plan_text(plan), "p.json"));
  CHECK(again.options == plan.options);
}

}  // namespace
}  // namespace planner
