// Individually simulated workers: the result equals that of a graph with separate tasks for each; waiting
// times and failures.

#include "planner/run/all_workers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"
#include "planner/run/worker_simulations.hpp"
#include "sim/draws.hpp"
#include "sim/simulate.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using sim::Time;
using support::Random;
using support::Scene;
using support::schedule_of;
using Kind = TaskLabel::Kind;

Time us(double value) { return sim::from_us(value); }

std::vector<std::int64_t> everyone(const Scene& scene) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 0; n < scene.setting.costs.workers(); ++n) out.push_back(n);
  return out;
}

/// The time of a task by worker, kind, iteration and item; collectives and ticks have worker -1.
using Which = std::tuple<std::int64_t, Kind, std::uint32_t, std::uint32_t>;
using Spans = std::map<Which, sim::Span>;

bool is_shared(sim::StreamId stream) { return stream == Lowered::kChannel || stream == Lowered::kTicks; }

Spans spans_of_graph(const Lowered& lowered) {
  const sim::Timeline timeline = sim::simulate(lowered.graph);
  Spans out;
  const auto tasks = lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    const auto worker =
        is_shared(tasks[i].stream) ? -1 : static_cast<std::int64_t>(Lowered::worker_of(tasks[i].stream));
    out[{worker, label.kind, label.iteration, label.item}] = timeline.spans[i];
  }
  return out;
}

Spans spans_by_worker(const Run& run, const AllWorkers& all) {
  Spans out;
  const auto tasks = run.lowered.graph.tasks();
  for (const ShownWorker& shown : all.shown)
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskLabel label = TaskLabel::unpack(tasks[i].label);
      const std::int64_t worker = is_shared(tasks[i].stream) ? -1 : shown.worker;
      out[{worker, label.kind, label.iteration, label.item}] = shown.timeline.spans[i];
    }
  // a tick starts when the last worker has reached it
  for (auto& [which, span] : out)
    if (std::get<1>(which) == Kind::tick) span.start = Time::min();
  return out;
}

std::string first_difference(const Spans& expected, const Spans& got) {
  for (const auto& [which, span] : expected) {
    const auto& [worker, kind, iteration, item] = which;
    const auto found = got.find(which);
    const std::string name = fmt::format("worker {} kind {} iteration {} item {}", worker,
                                         static_cast<int>(kind), iteration, item);
    if (found == got.end()) return name + " is not there";
    const bool same_start = kind == Kind::tick || found->second.start == span.start;
    if (!same_start || found->second.end != span.end)
      return fmt::format("{}: {}-{} expected, got {}-{}", name, span.start.count(), span.end.count(),
                         found->second.start.count(), found->second.end.count());
  }
  return expected.size() == got.size() ? "" : "more tasks than expected";
}

std::vector<Schedule> schedules() {
  std::vector<Schedule> out = lossless_schedules();
  constexpr const char* kSummed =
      R"({"name": "x", "ratio": 0.5, "collective": "all_reduce",
          "encode": {"startup_us": 1, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}})";
  for (const char* members : {R"("name": "grace")", R"("name": "hipress")", R"("pipeline": "dear")",
                              R"("pipeline": "zero", "overlap_gather": false)",
                              R"("name": "horovod", "fusion": {"kind": "threshold", "cycle_us": 40})"})
    out.push_back(schedule_of(fmt::format(R"({{{}, "compression": {}}})", members, kSummed)));
  out.push_back(schedule_of(
      R"({"pipeline": "sharded", "fusion": {"kind": "threshold", "cycle_us": 40}, "reshard_after_forward": true})"));
  return out;
}

TEST_CASE("all workers: each runs as in a graph in which everyone has tasks of their own") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.jitter = {.sigma = 0.3, .seed = seed};
    const Scene scene(profile, network, random.between(1, 6), conditions);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      const Run run = scene.run(schedule);
      if (run.program.by_layer) continue;  // workers may run collectives in different orders
      REQUIRE(run.all_workers);
      const Lowered whole = lower_every_worker(scene.setting, run);
      const AllWorkers all = simulate_all_workers(scene.setting, run, everyone(scene));
      CHECK(first_difference(spans_of_graph(whole), spans_by_worker(run, all)) == "");
      const sim::Timeline timeline = sim::simulate(whole.graph);
      REQUIRE(run.marks.size() == whole.marks.size());
      for (std::size_t mark = 0; mark < run.marks.size(); ++mark)
        CHECK(run.marks[mark] == at_mark(whole.marks[mark], timeline));
    }
  }
}

std::vector<Time> parts_of(const Busy& busy) {
  return {busy.forward, busy.backward, busy.encode, busy.decode, busy.update};
}

/// The first member in which two results differ; empty if they are equal.
std::string first_difference(const AllWorkers& expected, const AllWorkers& got) {
  if (got.marks != expected.marks) return "marks";
  for (std::size_t n = 0; n < expected.busy.size(); ++n)
    if (parts_of(got.busy.at(n)) != parts_of(expected.busy[n])) return "busy";
  if (got.waited != expected.waited) return "waited";
  if (got.kept_waiting != expected.kept_waiting) return "kept_waiting";
  if (got.channel_busy != expected.channel_busy) return "channel_busy";
  if (got.use.length != expected.use.length) return "length";
  if (got.use.computing != expected.use.computing) return "computing";
  if (got.use.communicating != expected.use.communicating) return "communicating";
  if (got.message_work != expected.message_work) return "message_work";
  for (std::size_t i = 0; i < expected.shown.size(); ++i)
    if (got.shown.at(i).worker != expected.shown[i].worker ||
        got.shown[i].timeline != expected.shown[i].timeline)
      return "shown";
  if (got.critical_path.has_value() != expected.critical_path.has_value()) return "a critical path";
  if (!expected.critical_path) return "";
  const CriticalPath& path = *got.critical_path;
  const CriticalPath& known = *expected.critical_path;
  if (path.iterations != known.iterations || path.from != known.from || path.to != known.to) return "path";
  if (path.computing != known.computing) return "path: computing";
  if (path.communicating != known.communicating) return "path: communicating";
  if (path.untraced != known.untraced) return "path: untraced";
  if (path.sending != known.sending) return "path: sending";
  if (path.crossings.size() != known.crossings.size()) return "path: crossings";
  for (std::size_t i = 0; i < known.crossings.size(); ++i)
    if (path.crossings[i].from != known.crossings[i].from || path.crossings[i].to != known.crossings[i].to)
      return "path: crossing";
  return "";
}

TEST_CASE("all workers: in blocks they give what they give task by task") {
  std::uint32_t in_blocks = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(120); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.channels = random.one_in(3) ? 1 + random.below(3) : 1;
    conditions.jitter = {.sigma = random.one_in(4) ? 0 : 0.3, .seed = seed};
    if (random.one_in(4)) conditions.jitter.distribution = Jitter::Distribution::normal;
    if (random.one_in(4)) conditions.stragglers.push_back({.worker = 0, .slowdown = 1.5});
    const bool has_blocks = random.one_in(20);
    const Scene scene(profile, network, has_blocks ? 500 + random.below(700) : 1 + random.below(6),
                      conditions);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      if (schedule.pipeline->program(1, schedule.options).by_layer) continue;
      const Run run = scene.run(schedule);
      const Simulated simulated = simulate_workers_of(scene.setting, run);
      if (!runs_in_blocks(scene.setting, simulated)) continue;
      ++in_blocks;
      for (const bool with_path : {true, false}) {
        const AllWorkers expected =
            simulate_task_by_task(scene.setting, simulated, everyone(scene), with_path);
        CHECK(first_difference(
                  expected, simulate_in_blocks(scene.setting, simulated, everyone(scene), with_path)) == "");
      }
    }
  }
  CHECK(in_blocks > support::seeds(500));
}

TEST_CASE("all workers: rings that share no link give in one go what they give message by message") {
  for (std::uint32_t seed = 0; seed < support::seeds(120); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.failures = {};
    conditions.fidelity = Fidelity::messages;
    conditions.channels = random.one_in(3) ? 1 + random.below(3) : 1;
    conditions.jitter = {.sigma = random.one_in(2) ? 0 : 0.3, .seed = seed};  // without, messages tie
    conditions.links.sigma = random.one_in(2) ? 0 : 0.2;
    if (random.one_in(2)) conditions.links.slow = {{.worker = 0, .slowdown = 2}};
    const Scene scene(profile, network, random.between(2, 7), conditions);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      if (schedule.pipeline->program(1, schedule.options).by_layer) continue;
      const Run run = scene.run(schedule);
      for (const bool with_path : {true, false}) {
        const AllWorkers expected = simulate_by_messages(scene.setting, run, everyone(scene), with_path);
        CHECK(first_difference(expected,
                               simulate_all_workers(scene.setting, run, everyone(scene), with_path)) == "");
      }
    }
  }
}

// Two workers, one layer: forward 10, backward 20, all-reduce 5; worker 1 twice as slow.
//
//   worker 0  f 0-10  b 10-30  . waits 30 .                 f 65-75 ...
//   worker 1  f 0----20  b 20--------60
//   channel                              all-reduce 60-65
core::Profile one_layer() { return support::profile_of({{10, 20, {10}}}); }

TEST_CASE("all workers: who waits is told, and for whom") {
  const Scene scene(one_layer(), support::pair_of(5, 0), 2,
                    {.iterations = 3,
                     .stragglers = {{.worker = 1, .slowdown = 2}},
                     .jitter = {.distribution = Jitter::Distribution::measured}});  // no spread is measured
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  REQUIRE(run.all_workers);
  CHECK(run.marks == std::vector<Time>{us(0), us(65), us(130), us(195)});
  CHECK(run.all_workers->waited[0].us() == 60);  // over the two counted iterations
  CHECK(run.all_workers->waited[1].us() == 0);
  CHECK(run.all_workers->kept_waiting[0].us() == 0);
  CHECK(run.all_workers->kept_waiting[1].us() == 60);
  CHECK(run.all_workers->channel_busy == us(10));
  CHECK(run.all_workers->busy[0].forward == us(20));
  CHECK(run.all_workers->busy[1].backward == us(80));
  CHECK(run.metrics.iteration_us == 65);
  CHECK(run.metrics.backward_us == 40);
}

// Worker 0 is down from 15 to 45: its backward runs 10-15 and 45-60, the other worker waits from 30 on.
TEST_CASE("all workers: one that fails goes on where it was, and the others wait") {
  const Scene scene(one_layer(), support::pair_of(5, 0), 2,
                    {.iterations = 2, .failures = {{.worker = 0, .at_us = 15, .down_us = 30}}});
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  REQUIRE(run.all_workers);
  CHECK(run.marks == std::vector<Time>{us(0), us(65), us(100)});
  const AllWorkers all = simulate_all_workers(scene.setting, run, {0, 1});
  CHECK(all.shown[0].timeline.spans[1] == sim::Span{us(10), us(60)});
  CHECK(all.shown[1].timeline.spans[1] == sim::Span{us(10), us(30)});
}

// Worker 0 has issued at 30, but is down from 30 to 100: no communication takes place before 100.
TEST_CASE("all workers: one that is down joins no collective") {
  const Scene scene(one_layer(), support::pair_of(5, 0), 2,
                    {.iterations = 1, .failures = {{.worker = 0, .at_us = 30, .down_us = 70}}});
  CHECK(scene.run(schedule_of(R"("wfbp")")).marks.back() == us(105));
}

TEST_CASE("all workers: one that never comes back is named, with what it leaves waiting") {
  const Scene scene(one_layer(), support::pair_of(5, 0), 4,
                    {.iterations = 2, .failures = {{.worker = 2, .at_us = 50}}});
  CHECK_THROWS_WITH_AS(scene.run(schedule_of(R"("wfbp")")),
                       doctest::Contains("worker 2 fails for good at 50 us, in iteration 2"), NeverEnds);
  const Scene late(one_layer(), support::pair_of(5, 0), 4,
                   {.iterations = 2, .failures = {{.worker = 2, .at_us = 1e6}}});
  CHECK(late.run(schedule_of(R"("wfbp")")).marks.back() == us(2 * (30 + 6 * 2.5)));
}

Time all(const CriticalPath& path) {
  Time out = path.communicating + path.untraced;
  for (const Time time : path.computing) out += time;
  return out;
}

// The same scene: two iterations count, each with 60 of worker 1 and an all-reduce of 5.
TEST_CASE("all workers: the critical path is the slow worker's compute and what is not hidden behind it") {
  const Scene scene(one_layer(), support::pair_of(5, 0), 2,
                    {.iterations = 3,
                     .stragglers = {{.worker = 1, .slowdown = 2}},
                     .jitter = {.distribution = Jitter::Distribution::measured}});
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  REQUIRE(run.all_workers);
  REQUIRE(run.all_workers->critical_path);
  const CriticalPath& path = *run.all_workers->critical_path;
  CHECK(path.computing == std::vector<Time>{us(0), us(120)});
  CHECK(path.communicating == us(10));
  CHECK(path.untraced == us(0));
}

// One iteration; forward 1, backward 1, 1, 1 of three tensors of which each takes 10 to send:
//
//   compute  f 0-1  b3 1-2  b2 2-3  b1 3-4
//   channel                 A3 2-12  A2 12-22  A1 22-32
TEST_CASE(
    "all workers: where the channel is the bottleneck the path leads through it to the first gradient") {
  const Scene scene(support::profile_of({{1, 1, {10}}, {0, 1, {10}}, {0, 1, {10}}}), support::pair_of(10, 0),
                    2, {.iterations = 1, .jitter = {.distribution = Jitter::Distribution::measured}});
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  const CriticalPath& path = *run.all_workers->critical_path;
  CHECK(run.marks.back() == us(32));
  CHECK(path.communicating == us(30));
  CHECK(path.computing == std::vector<Time>{us(2), us(0)});  // among equal workers, the first
}

TEST_CASE("all workers: a critical path is as long as the iterations, and without holes") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.jitter = {.sigma = 0.3, .seed = seed};
    if (random.one_in(3)) conditions.failures = {{.worker = 0, .at_us = 5, .down_us = 50}};
    const Scene scene(profile, network, random.between(1, 6), conditions);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      if (schedule.name == "bytescheduler") continue;
      const Run run = scene.run(schedule);
      const CriticalPath& path = *run.all_workers->critical_path;
      CHECK(all(path) == run.marks.back() - run.marks[first_counted(run.lowered)]);
      CHECK(path.untraced == Time::zero());
    }
  }
}

// A ring of two messages one after the other, 10 each; worker 0's take twice as long. Worker 1 is ready at
// 30, worker 0 at 15.
//
//   worker 0  f 0-5   b 5-15    sends 15-----35  (from 1 at 40)  sends 40-----60
//   worker 1  f 0-10  b 10-30                  sends 30-40       sends 40-50
TEST_CASE("all workers: in steps the path leads through messages, back to the worker that entered last") {
  Conditions conditions = {
      .iterations = 1, .stragglers = {{.worker = 1, .slowdown = 2}}, .fidelity = Fidelity::steps};
  conditions.links.slow = {{.worker = 0, .slowdown = 2}};
  for (const Fidelity fidelity : {Fidelity::steps, Fidelity::messages}) {
    conditions.fidelity = fidelity;
    const Scene scene(support::profile_of({{5, 10, {10}}}), support::link_of(10, 0), 2, conditions);
    const Run run = scene.run(schedule_of(R"("wfbp")"));
    REQUIRE(run.marks.back() == us(60));
    REQUIRE(run.all_workers->critical_path);
    const CriticalPath& path = *run.all_workers->critical_path;
    CHECK(path.computing == std::vector<Time>{us(0), us(30)});
    CHECK(path.communicating == us(30));
    CHECK(path.sending == std::vector<Time>{us(20), us(10)});
    CHECK(path.crossings.size() == 1);
    CHECK(path.untraced == us(0));
  }
}

TEST_CASE("all workers: in a ring of thousands the path leads through messages, too") {
  Conditions conditions = {.iterations = 1, .fidelity = Fidelity::steps};
  conditions.links.slow = {{.worker = 7, .slowdown = 2}};
  for (const auto& each : {std::pair{4096, 10'000}, {4096, 400'000'000}, {131'072, 400'000'000}}) {
    const int workers = each.first;
    const int bytes = each.second;
    CAPTURE(workers);
    CAPTURE(bytes);
    const Scene scene(support::profile_of({{5, 10, {bytes}}}), support::link_of(10, 8e-5), workers,
                      conditions);
    const Run run = scene.run(schedule_of(R"("wfbp")"));
    REQUIRE(run.all_workers->critical_path);
    const CriticalPath& path = *run.all_workers->critical_path;
    CHECK(path.untraced == Time::zero());
    CHECK(std::accumulate(path.sending.begin(), path.sending.end(), Time::zero()) == path.communicating);
  }
}

TEST_CASE("all workers: what is too much to record of the only iteration is not traced") {
  Conditions conditions = {.iterations = 1, .fidelity = Fidelity::steps};
  conditions.links.slow = {{.worker = 7, .slowdown = 2}};
  constexpr std::int64_t kTensors = 80;  // 280 MiB
  const std::vector<support::LayerSpec> layers(kTensors, {5, 10, {10'000}});
  const Scene scene(support::profile_of(layers), support::link_of(10, 8e-5), 131'072, conditions);
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  REQUIRE(run.all_workers->critical_path);
  const CriticalPath& path = *run.all_workers->critical_path;
  CHECK(path.iterations == 1);
  CHECK(path.untraced > Time::zero());
  CHECK(path.communicating > path.untraced);
  CHECK(all(path) == run.marks.back() - run.marks[first_counted(run.lowered)]);
}

TEST_CASE("all workers: a path rank by rank is as long as the iterations, and without holes") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = {};
    conditions.fidelity = random.one_in(2) ? Fidelity::steps : Fidelity::messages;
    conditions.jitter = {.sigma = 0.3, .seed = seed};
    conditions.links.sigma = 0.2;
    if (random.one_in(3)) conditions.failures = {{.worker = 0, .at_us = 5, .down_us = 50}};
    const bool shares = conditions.fidelity == Fidelity::messages && random.one_in(2);
    if (shares) conditions.topology = cluster::TopologySpec{.startup_us = 1, .nic = {.us_per_byte = 0.01}};
    if (shares) conditions.channels = 1 + random.below(3);
    const Scene scene(profile, network, random.between(2, 6), conditions);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      if (schedule.pipeline->program(1, schedule.options).by_layer) continue;
      const Run run = scene.run(schedule);
      REQUIRE(run.all_workers->critical_path);
      const CriticalPath& path = *run.all_workers->critical_path;
      CHECK(all(path) == run.marks.back() - run.marks[first_counted(run.lowered)]);
      CHECK(path.untraced == Time::zero());
      Time sending{};
      for (const Time time : path.sending) sending += time;
      if (shares) CHECK(sending == Time::zero());
      CHECK(sending <= path.communicating);
    }
  }
}

TEST_CASE("all workers: normal draws are 1 + sigma z") {
  const TaskLabel label = {.kind = Kind::forward, .iteration = 1, .item = 2};
  const Jitter jitter = {.distribution = Jitter::Distribution::normal, .sigma = 0.1, .seed = 3};
  const std::uint64_t bits = sim::hash(3, std::uint64_t{5}, 1U, std::uint64_t{1}, 2U);
  CHECK(task_factor(jitter, 0.1, 5, label) == 1 + 0.1 * sim::standard_normal(bits));
  double sum = 0;
  constexpr int kDraws = 20'000;
  for (std::int64_t worker = 0; worker < kDraws; ++worker) sum += task_factor(jitter, 0.1, worker, label);
  CHECK(sum / kDraws == doctest::Approx(1).epsilon(0.003));
}

TEST_CASE("all workers: measured jitter takes each layer's own spread") {
  core::Profile profile = support::profile_of({{10, 20, {10}}, {10, 20, {10}}});
  profile.layers[0].forward_spread_us = 1.349;   // sigma 0.1
  profile.layers[1].backward_spread_us = 13.49;  // sigma 0.5
  const Scene scene(profile, support::pair_of(1, 0), 2,
                    {.jitter = {.distribution = Jitter::Distribution::measured}});
  const TaskSigmas sigmas(scene.setting);
  CHECK(sigmas.of(Kind::forward, 0) == doctest::Approx(0.1));
  CHECK(sigmas.of(Kind::forward, 1) == 0);
  CHECK(sigmas.of(Kind::backward, 0) == doctest::Approx(0.5));  // step 0 is the last layer
  CHECK(sigmas.of(Kind::backward, 1) == 0);
  CHECK(sigmas.of(Kind::update, 0) == 0);
}

}  // namespace
}  // namespace planner
