// Several channels: concurrent collectives, which share links.

#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/run/worker_report.hpp"
#include "planner/scenarios/run.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;
using support::schedule_of;

/// Conditions with two workers whose NICs send 4 bytes per microsecond; nothing else takes time.
Conditions on_nics(std::uint32_t channels) {
  Conditions out = {.iterations = 1, .fidelity = Fidelity::messages};
  out.topology = cluster::TopologySpec{.nic = {.us_per_byte = 0.25}};
  out.channels = channels;
  return out;
}

// Each all-reduce is two rounds of 200 bytes, 50 us each alone. Gradients are ready at 40 and 60.
// 1 channel   l2 40-90-140  l1 140-190-240
// 2 channels  first  l2 40--120-----220      alone until 60: 80 bytes; then half the NIC
//             second l1    60----160------240   120 bytes by 120, 200 by 160; alone again from 220
TEST_CASE("channels: two collectives at once share the NIC") {
  const core::Profile profile = support::profile_of({{10, 20, {100}}, {10, 20, {100}}});
  const Scene one(profile, support::pair_of(4, 0.1), 2, on_nics(1));
  const Run in_turn = one.run(schedule_of(R"("wfbp")"));
  CHECK(in_turn.metrics.iteration_us == 240);
  CHECK(in_turn.metrics.communication_us == 200);

  const Scene two(profile, support::pair_of(4, 0.1), 2, on_nics(2));
  const Run at_once = two.run(schedule_of(R"("wfbp")"));
  CHECK(at_once.metrics.iteration_us == 240);
  CHECK(at_once.metrics.communication_us == 200);  // 40 to 240; overlapping collectives count once
  const std::optional<WorkerReport> report = report_workers(two.setting, at_once);
  REQUIRE(report);
  CHECK(report->utilisation.compute == doctest::Approx(60.0 / 240));
  CHECK(report->utilisation.channel == doctest::Approx(200.0 / 240));
  REQUIRE(report->utilisation.links.size() == 4);
  CHECK(report->utilisation.links.front().link == "node 0 nic out");  // among equally busy links, the first
  for (const LinkUse& use : report->utilisation.links)                // 800 bytes at 4 bytes per microsecond
    CHECK(use.share == doctest::Approx(200.0 / 240));
  CHECK(support::stream(two, at_once, Lowered::channel(0)) == "A1 40-220");
  CHECK(support::stream(two, at_once, Lowered::channel(1)) == "A2 60-240");
}

// compute  F1, F2, B2 -40, B1 -60                    F1 240-250, F2 250-260
// first    S1 40---120, alone until 60   G2 140---240     G2, of l1, and G1 share the NIC
// second   S2   60-----140               G1 140---240
TEST_CASE("channels: in dear no all-gather begins before every reduce-scatter has ended") {
  const core::Profile profile = support::profile_of({{10, 20, {100}}, {10, 20, {100}}});
  const Scene scene(profile, support::pair_of(4, 0.1), 2, on_nics(2));
  const Run run = scene.run(schedule_of(R"("dear-no-fusion")"));
  CHECK(support::stream(scene, run, Lowered::channel(0)) == "S1 40-120, G2 140-240");
  CHECK(support::stream(scene, run, Lowered::channel(1)) == "S2 60-140, G1 140-240");
  CHECK(support::stream(scene, run, Lowered::kCompute) ==
        "F1 0-10, F2 10-20, B2 20-40, B1 40-60, F1 240-250, F2 250-260");
}

TEST_CASE("channels: with as many as collectives, and links of their own, none waits for another") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = {.iterations = 1, .fidelity = Fidelity::messages};
    conditions.channels = 64;
    core::Profile profile = support::random_profile(random, 5);
    for (core::ProfileLayer& layer : profile.layers)
      for (core::ProfileTensor& tensor : layer.tensors) tensor.elements = 4 * random.between(1, 500);
    const std::int64_t workers = std::int64_t{1} << random.between(1, 2);
    const Scene scene(profile, support::random_link(random), workers, conditions);
    const Run run = scene.run(schedule_of(R"("s-sgd")"));
    sim::Time longest{};
    for (const Group& group : run.groups)
      longest = std::max(longest, run.transfers.front().time(core::CollectiveKind::all_reduce,
                                                             bytes_of(scene.setting.workload, group)));
    const sim::Time all =
        scene.setting.workload.forward_total + scene.setting.workload.backward_total + longest;
    CHECK(run.metrics.iteration_us == doctest::Approx(sim::to_us(all)).epsilon(1e-6));
  }
}

/// With random times, a straggler and a failure, for every pipeline with an ordered channel.
TEST_CASE("channels: of one collective at a time two are as good as one") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = support::random_conditions(random);
    conditions.fidelity = Fidelity::messages;
    conditions.jitter = {.sigma = 0.1, .seed = seed};
    conditions.failures = {{.worker = 1, .at_us = 40, .down_us = 60}};
    conditions.topology = cluster::TopologySpec{.startup_us = 1, .nic = {.us_per_byte = 0.01}};
    const core::Profile profile = support::random_profile(random, 4);
    const core::Network network = support::random_link(random);
    for (const char* schedule : {R"("sync-easgd")", R"({"pipeline": "zero", "fusion": "all"})",
                                 R"({"pipeline": "dear", "fusion": "all"})"}) {
      CAPTURE(schedule);
      std::vector<double> iteration_us;
      for (const std::uint32_t channels : {1U, 2U, 3U}) {
        conditions.channels = channels;
        const Scene scene(profile, network, 3, conditions);
        iteration_us.push_back(scene.run(schedule_of(schedule)).metrics.iteration_us);
      }
      CHECK(iteration_us[1] == iteration_us[0]);
      CHECK(iteration_us[2] == iteration_us[0]);
    }
  }
}

/// The span of each group's collective of a kind, by iteration and group.
std::map<std::pair<std::uint32_t, std::uint32_t>, sim::Span> spans_of(const Run& run, TaskLabel::Kind kind) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, sim::Span> out;
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    if (label.kind != kind) continue;
    const auto group = label.item % static_cast<std::uint32_t>(run.groups.size());
    out.try_emplace({label.iteration, group}, run.timeline.spans[i]);  // of the first micro-batch
  }
  return out;
}

TEST_CASE("channels: no group is gathered before what it gathers is there") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.fidelity = Fidelity::messages;
    conditions.channels = 2 + random.below(4);
    conditions.jitter = {.sigma = 0.2, .seed = seed};
    const Scene scene(support::random_profile(random, 5), support::random_link(random), 3, conditions);
    for (const char* json :
         {R"({"name": "dear-no-fusion"})", R"({"name": "dear-no-fusion", "prefetch": 1})", R"("zero")",
          R"({"pipeline": "zero", "fusion": "none", "overlap_gather": false})", R"("fsdp")",
          R"({"pipeline": "sharded", "fusion": "none", "prefetch": 2, "reshard_after_forward": true})"}) {
      CAPTURE(json);
      const Schedule schedule = schedule_of(json);
      const Run run = scene.run(schedule);
      // sharded gathers the results of the previous iteration, dear and zero those of the same one
      const std::uint32_t later = schedule.pipeline->name == "sharded" ? 1 : 0;
      const auto gathers =
          spans_of(run, later > 0 ? TaskLabel::Kind::forward_gather : TaskLabel::Kind::all_gather);
      for (const auto& [scattered, span] : spans_of(run, TaskLabel::Kind::reduce_scatter)) {
        const auto gather = gathers.find({scattered.first + later, scattered.second});
        if (gather == gathers.end()) continue;
        ++compared;
        CHECK(gather->second.start >= span.end);
      }
    }
  }
  CHECK(compared > 1000);
}

// One layer with two tensors, each gathered on its own channel: forward waits for the longer gather. A
// message of 10^6 bytes each way takes 2 x (5 + 2000) / 2 = 2005, and no links are shared.
TEST_CASE("channels: in sharded a layer waits for all groups that it has tensors in") {
  Conditions conditions = {.iterations = 1, .fidelity = Fidelity::messages};
  conditions.channels = 2;
  const Scene scene(support::profile_of({{10, 10, {1'000'000, 1000}}}), support::link_of(5, 0.001), 2,
                    conditions);
  const Run run = scene.run(schedule_of(R"({"pipeline": "sharded", "fusion": "none"})"));
  const std::string compute = support::stream(scene, run, Lowered::kCompute);
  CHECK(compute.substr(0, 12) == "F1 2005-2015");
}

TEST_CASE("channels: a topology on which a message takes longer than the clock has is refused") {
  const core::Profile profile = support::profile_of({{10, 10, {100'000}}});
  for (const double us_per_byte : {1e9, 1e13}) {
    CAPTURE(us_per_byte);
    Conditions conditions = on_nics(1);
    conditions.topology->nic.us_per_byte = us_per_byte;
    const Scene scene(profile, support::pair_of(4, 0.1), 2, conditions);
    CHECK_THROWS_AS(scene.run(schedule_of(R"("wfbp")")), const Unsupported&);
  }
  Conditions slow = on_nics(1);
  slow.topology->startup_us = 1e12;
  const Scene scene(profile, support::pair_of(4, 0.1), 16, slow);
  CHECK_THROWS_AS(scene.run(schedule_of(R"("wfbp")")), const Unsupported&);
}

TEST_CASE("channels: more than one with fidelity messages alone, and a word where nothing is shared") {
  const std::string text = R"({
    "format": "fusewise.scenario", "version": 1,
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {"kind": "estimated", "source": "test"},
      "layers": [{"name": "l", "kind": "k", "forward_us": 10, "backward_us": 20,
                  "tensors": [{"name": "t", "elements": 100}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "test"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.01}},
    "workers": 2, "schedules": ["wfbp"], "channels": 2, "fidelity": )";
  const scenarios::Scenario scenario =
      scenarios::read_scenario(core::Field::parse(text + R"("messages"})", "s.json"));
  CHECK(scenario.warnings ==
        std::vector<std::string>{"several channels without a topology: collectives at once share no link"});
  CHECK_THROWS_WITH_AS(
      scenarios::read_scenario(core::Field::parse(text + R"("steps"})", "s.json")),
      "s.json: /channels: expected 1 but with fidelity messages, as collectives at once share links, got 2",
      core::InputError);
}

}  // namespace
}  // namespace planner
