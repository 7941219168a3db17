// What holds for every named schedule on random workloads: measured numbers against the timeline, bounds, and
// that each gradient is delivered once.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "planner/entries.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using doctest::Approx;
using sim::Time;
using support::Random;
using support::Scene;
using traces::CollectiveKind;
using Kind = TaskLabel::Kind;

constexpr std::uint32_t kSeeds = 60;

/// The presets, and what is in none of them.
std::vector<Schedule> schedules() {
  std::vector<Schedule> out;
  for (const Preset& preset : presets()) out.push_back(preset_schedule(preset.name));
  for (const char* json :
       {R"({"pipeline": "zero", "overlap_gather": false, "fusion": {"kind": "groups", "count": 3}})",
        R"({"pipeline": "after_backward", "fusion": "optimal"})",
        R"({"pipeline": "dear", "fusion": {"kind": "threshold", "cycle_us": 50, "cap_bytes": 9000}})",
        R"({"pipeline": "zero", "fusion": "groups"})"})
    out.push_back(support::schedule_of(json));
  return out;
}

/// Random profile, link and conditions; calls back with each schedule.
template <typename Check>
void for_all(Check check) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const traces::Profile profile = support::random_profile(random, 9);
    const traces::Network network = support::random_link(random);
    const Conditions conditions = support::random_conditions(random);
    const std::int64_t workers = random.between(1, 9);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      check(profile, network, workers, conditions, schedule);
    }
  }
}

TEST_CASE("pipelines: an iteration takes the same time however many are simulated") {
  for_all([](const auto& profile, const auto& network, std::int64_t workers, Conditions conditions,
             const Schedule& schedule) {
    std::vector<double> times;
    for (const std::int64_t iterations : {1, 2, 3, 5}) {
      conditions.iterations = iterations;
      times.push_back(Scene(profile, network, workers, conditions).run(schedule).prediction.iteration_us);
    }
    for (const double time : times) CHECK(time == Approx(times.front()).epsilon(1e-12));
  });
}

TEST_CASE("pipelines: no prediction is below its lower bound, and no communication exposed below zero") {
  for_all([](const auto& profile, const auto& network, std::int64_t workers, const Conditions& conditions,
             const Schedule& schedule) {
    const Scene scene(profile, network, workers, conditions);
    const Prediction got = scene.run(schedule).prediction;
    // in parts an update is rounded as often as there are groups
    CHECK(got.iteration_us >=
          lower_bound_us(scene.setting, schedule) - 1e-6 * static_cast<double>(got.groups));
    CHECK(got.exposed_communication_us >= 0);
    const double cycle_us = schedule.fusion.kind == "threshold" ? 1000 : 0;  // the longest of any
    CHECK(got.exposed_communication_us <= got.communication_us + cycle_us + 1e-9);
    CHECK(got.iteration_us >= got.forward_us + got.backward_us + got.update_us);
  });
}

TEST_CASE("pipelines: one worker has nothing to communicate, and an efficiency of 1") {
  for_all([](const auto& profile, const auto& network, std::int64_t /*workers*/, Conditions conditions,
             const Schedule& schedule) {
    conditions.stragglers.clear();
    const Prediction got = Scene(profile, network, 1, conditions).run(schedule).prediction;
    CHECK(got.scaling_efficiency == Approx(1).epsilon(1e-6));
    CHECK(got.speedup == got.scaling_efficiency);
    CHECK(got.communication_us == 0);
    CHECK(got.exposed_communication_us == 0);
    CHECK(got.bytes_sent_per_worker == 0);
  });
}

TEST_CASE("pipelines: the channel is busy for as long as its collectives cost") {
  for_all([](const auto& profile, const auto& network, std::int64_t workers, const Conditions& conditions,
             const Schedule& schedule) {
    const Scene scene(profile, network, workers, conditions);
    const Run run = scene.run(schedule);
    const Workload& workload = scene.setting.workload;
    Time costs{};
    double sent = 0;
    if (workers > 1) {
      for (const Op& op : run.program.ops) {
        const Group& group = run.groups[op.group];
        const std::int64_t bytes = workload.bytes_before[group.end] - workload.bytes_before[group.begin];
        costs += scene.setting.costs.of(op.kind).time(bytes);
        sent += scene.setting.costs.of(op.kind).sent_per_byte * static_cast<double>(bytes);
      }
      // on a ring every byte crosses 2(P-1)/P times
      const auto p = static_cast<double>(workers);
      CHECK(sent == Approx(2 * (p - 1) / p * static_cast<double>(workload.bytes())));
    }
    Time busy{};
    const auto tasks = run.lowered.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (tasks[i].stream == Lowered::kChannel)
        busy += run.timeline.spans[i].end - run.timeline.spans[i].start;
    CHECK(busy == conditions.iterations * (costs + scene.setting.extras.lars_gather));
    CHECK(run.prediction.communication_us == sim::to_us(costs + scene.setting.extras.lars_gather));
    CHECK(run.prediction.bytes_sent_per_worker >= sent);
  });
}

TEST_CASE("pipelines: more workers never speed up an iteration on a ring") {
  for_all([](const auto& profile, const auto& network, std::int64_t /*workers*/, Conditions conditions,
             const Schedule& schedule) {
    if (schedule.fusion.kind == "mg-wfbp") return;  // a greedy may do better by luck
    conditions.parallel_tensor_operator = false;    // shares work among workers
    double before = 0;
    for (const std::int64_t workers : {1, 2, 3, 4, 7, 16, 100, 10'000}) {
      const double time = Scene(profile, network, workers, conditions).run(schedule).prediction.iteration_us;
      CAPTURE(workers);
      CHECK(time >= before);
      before = time;
    }
  });
}

TEST_CASE("pipelines: a slower network, a straggler or an update never shortens an iteration") {
  for_all([](const auto& profile, const auto& network, std::int64_t workers, Conditions conditions,
             const Schedule& schedule) {
    if (schedule.fusion.kind == "mg-wfbp") return;
    // with a cycle a straggler's gradients may share a tick that they would have missed
    const bool has_cycle = schedule.fusion.kind == "threshold";
    const double time = Scene(profile, network, workers, conditions).run(schedule).prediction.iteration_us;
    traces::Network slower = network;
    slower.link->beta_us_per_byte *= 2;
    slower.link->alpha_us += 3;
    CHECK(Scene(profile, slower, workers, conditions).run(schedule).prediction.iteration_us >= time);
    conditions.optimizer_us += 5;
    CHECK(Scene(profile, network, workers, conditions).run(schedule).prediction.iteration_us >= time);
    conditions.stragglers = {{.worker = 0, .slowdown = 3}};
    if (!has_cycle)
      CHECK(Scene(profile, network, workers, conditions).run(schedule).prediction.iteration_us >= time);
  });
}

// ---- programs

TEST_CASE("pipelines: every program delivers each group once, whole, and halves in order") {
  for (const Pipeline& pipeline : pipelines()) {
    for (const bool overlap_gather : {true, false}) {
      for (const std::uint32_t groups : {1U, 2U, 7U}) {
        CAPTURE(pipeline.name);
        CAPTURE(groups);
        std::vector<std::string> kinds(groups);
        std::vector<int> delivered(groups);
        for (const Op& op : pipeline.program(groups, {.overlap_gather = overlap_gather}).ops) {
          REQUIRE(op.group < groups);
          kinds[op.group] += std::string(traces::name(op.kind)) + ' ';
          if (op.delivers != Delivers::nothing) ++delivered[op.group];
        }
        for (std::uint32_t group = 0; group < groups; ++group) {
          CHECK((kinds[group] == "all_reduce " || kinds[group] == "reduce_scatter all_gather "));
          CHECK(delivered[group] == 1);
        }
      }
    }
  }
}

bool is_collective(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::all_gather;
}

/// When the tasks of a run ran, by kind, iteration and item.
class Spans {
 public:
  explicit Spans(const Run& run) {
    const auto tasks = run.lowered.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskLabel label = TaskLabel::unpack(tasks[i].label);
      spans_[{label.kind, {label.iteration, label.item}}] = run.timeline.spans[i];
      if (is_collective(label.kind)) ++collectives_;
    }
  }
  bool has(Kind kind, std::uint32_t iteration, std::uint32_t item) const {
    return spans_.count({kind, {iteration, item}}) > 0;
  }
  sim::Span at(Kind kind, std::uint32_t iteration, std::uint32_t item) const {
    return spans_.at({kind, {iteration, item}});
  }
  std::size_t collectives() const { return collectives_; }

 private:
  std::map<std::pair<Kind, std::pair<std::uint32_t, std::uint32_t>>, sim::Span> spans_;
  std::size_t collectives_ = 0;
};

TEST_CASE(
    "pipelines: no gradient travels before it is ready, and no layer runs forward without its parameters") {
  for_all([](const auto& profile, const auto& network, std::int64_t workers, const Conditions& conditions,
             const Schedule& schedule) {
    const Scene scene(profile, network, workers, conditions);
    const Run run = scene.run(schedule);
    const Spans spans(run);
    if (workers == 1) {
      CHECK(spans.collectives() == 0);
      return;
    }
    const Workload& workload = scene.setting.workload;
    CHECK(spans.collectives() == run.program.ops.size() * static_cast<std::size_t>(conditions.iterations));
    bool ready = true;
    bool delivered = true;
    bool in_time = true;
    for (std::uint32_t iteration = 0; iteration < conditions.iterations; ++iteration) {
      const Time begin = spans.at(Kind::backward, iteration, 0).start;
      for (const Op& op : run.program.ops) {
        const Kind kind = op.kind == CollectiveKind::all_reduce       ? Kind::all_reduce
                          : op.kind == CollectiveKind::reduce_scatter ? Kind::reduce_scatter
                                                                      : Kind::all_gather;
        const Group& group = run.groups[op.group];
        const sim::Span span = spans.at(kind, iteration, op.group);
        for (std::uint32_t i = group.begin; i < group.end; ++i) {
          const Gradient& gradient = workload.gradients[i];
          ready = ready && span.start >= spans.at(Kind::backward, iteration, gradient.backward_step).end;
          if (op.delivers == Delivers::nothing || !spans.has(Kind::forward, iteration + 1, gradient.layer))
            continue;
          delivered = delivered && spans.at(Kind::forward, iteration + 1, gradient.layer).start >= span.end;
        }
        in_time = in_time && span.start >= begin + group.tick;
      }
    }
    CHECK(ready);
    CHECK(delivered);
    CHECK(in_time);
  });
}

}  // namespace
}  // namespace planner
