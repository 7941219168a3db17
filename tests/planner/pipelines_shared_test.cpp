// Properties of every named schedule, compressed or not, on random workloads and conditions: metrics against
// the timeline, bounds, and that each gradient is delivered exactly once.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/job/registry.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using doctest::Approx;
using sim::Time;
using support::Random;
using support::Scene;
using Kind = TaskLabel::Kind;

constexpr std::uint32_t kSeeds = support::seeds(60);

/// A random setting, without the schedule.
struct Instance {
  core::Profile profile;
  core::Network network;
  std::int64_t workers;
  Conditions conditions;
  std::string gathered;  ///< compressors
  std::string summed;

  Scene scene() const { return Scene(profile, network, workers, conditions); }
  Run run(const Schedule& schedule) const { return scene().run(schedule); }
  Metrics predict(const Schedule& schedule) const { return run(schedule).metrics; }
  double iteration_us(const Schedule& schedule) const { return predict(schedule).iteration_us; }
};

/// In half of the instances compute and communication slow each other down.
Instance random_instance(std::uint32_t seed) {
  Random random(seed);
  Instance out = {.profile = support::random_profile(random, 9),
                  .network = support::random_link(random),
                  .workers = 0,
                  .conditions = support::random_conditions(random),
                  .gathered = {},
                  .summed = {}};
  out.workers = random.between(1, 9);
  if (random.one_in(2)) out.conditions.overlap = support::random_overlap(random);
  out.gathered = support::random_compressor(random, "all_gather");
  out.summed = support::random_compressor(random, "all_reduce");
  return out;
}

/// The presets and further combinations, with compressors that the pipeline supports.
std::vector<Schedule> schedules(const std::string& gathered, const std::string& summed) {
  std::vector<Schedule> out;
  for (const Preset& preset : presets())
    if (!preset.needs_compressor) out.push_back(preset_schedule(preset.name));
  const auto add = [&](const std::string& members, const std::string& compressor = R"("none")") {
    out.push_back(support::schedule_of(fmt::format(R"({{{}, "compression": {}}})", members, compressor)));
  };
  add(R"("pipeline": "zero", "overlap_gather": false, "fusion": {"kind": "groups", "count": 3})");
  add(R"("pipeline": "after_backward", "fusion": "optimal")");
  add(R"("pipeline": "dear", "fusion": {"kind": "threshold", "cycle_us": 50, "cap_bytes": 9000})");
  add(R"("pipeline": "zero", "fusion": "groups")");
  add(R"("pipeline": "dear", "prefetch": 1, "fusion": "groups")");
  add(R"("pipeline": "dear", "prefetch": 2, "fusion": {"kind": "threshold", "cycle_us": 50, "cap_bytes": 9000})");
  add(R"("pipeline": "dear", "prefetch": 1, "fusion": "groups")", summed);
  add(R"("pipeline": "sharded")");
  add(R"("pipeline": "sharded", "prefetch": 0, "reshard_after_forward": true, "fusion": "groups")");
  add(R"("pipeline": "sharded", "prefetch": 3, "reshard_after_forward": false)");
  add(R"("pipeline": "sharded", "fusion": {"kind": "threshold", "cycle_us": 50, "cap_bytes": 9000})");
  add(R"("pipeline": "priority", "partition_bytes": 3000, "credit_bytes": 3000, "negotiation_us": 0.5)");
  add(R"("pipeline": "priority", "partition_bytes": 700, "credit_bytes": 2000)");
  add(R"("pipeline": "parameter_server", "servers": 2, "fusion": "optimal")");
  for (const char* preset : {"grace", "hipress", "cupcake"}) {
    const std::string name = fmt::format(R"("name": "{}")", preset);
    add(name, gathered);
    add(name, R"("dgc")");
    add(name + R"(, "pipeline": "after_backward")", gathered);
    add(name + R"(, "pipeline": "dear")", summed);
    add(name + R"(, "pipeline": "zero")", R"("fp16")");
    add(name + R"(, "pipeline": "zero", "overlap_gather": false)", summed);
  }
  add(R"("fusion": {"kind": "threshold", "cycle_us": 50, "cap_bytes": 9000})", gathered);
  add(R"("pipeline": "dear", "fusion": "groups")", summed);
  add(fmt::format(R"("fusion": {{"kind": "optimal", "choices": {{"compression": [{}, {}]}}}})", gathered,
                  summed));
  return out;
}

/// Calls `check` with each instance and schedule.
template <typename Check>
void for_all(Check check) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Instance instance = random_instance(seed);
    for (const Schedule& schedule : schedules(instance.gathered, instance.summed)) {
      CAPTURE(schedule.name);
      check(instance, schedule);
    }
  }
}

/// Whether better conditions may lead to worse groups (greedy, per-group and heuristic fusions), or to a
/// worse order if the order is decided during the run.
bool may_be_unlucky(const Run& run, const Schedule& schedule) {
  return schedule.fusion.kind == "mg-wfbp" || schedule.selective || schedule.pipeline->name == "priority" ||
         (run.proof && run.proof->optimality_gap > Time::zero());
}

/// Times are rounded at each change of their rate, by at most one picosecond.
bool at_least(double us, double bound_us) { return us >= bound_us - 1e-9 * bound_us; }

TEST_CASE("pipelines: an iteration takes the same time however many are simulated") {
  for_all([](Instance instance, const Schedule& schedule) {
    std::vector<double> times;
    for (const std::int64_t iterations : {1, 2, 3, 5}) {
      instance.conditions.iterations = iterations;
      times.push_back(instance.iteration_us(schedule));
    }
    const double epsilon = instance.conditions.overlap.slows() ? 1e-9 : 1e-12;
    for (const double time : times) CHECK(time == Approx(times.front()).epsilon(epsilon));
  });
}

TEST_CASE("pipelines: no prediction is below its lower bound, and no communication exposed below zero") {
  for_all([](const Instance& instance, const Schedule& schedule) {
    const Scene scene = instance.scene();
    const Metrics got = scene.run(schedule).metrics;
    // an update by group is rounded once per group
    CHECK(got.iteration_us >=
          lower_bound_us(request_of(scene.setting, schedule)) - 1e-6 * static_cast<double>(got.groups));
    CHECK(got.exposed_communication_us >= 0);
    const double cycle_us = schedule.fusion.kind == "threshold" ? 1000 : 0;  // the longest cycle of all
    CHECK(got.exposed_communication_us <= got.communication_us + cycle_us + 1e-9);
  });
}

/// The total duration of the tasks of a kind at full speed.
double work_us(const Run& run, Kind kind) {
  Time work{};
  for (const sim::Task& task : run.lowered.graph.tasks())
    if (TaskLabel::unpack(task.label).kind == kind) work += task.duration;
  return sim::to_us(work);
}

TEST_CASE("pipelines: an iteration is all that is computed, what is read unoverlapped, and what is exposed") {
  for_all([](Instance instance, const Schedule& schedule) {
    instance.conditions.iterations = 1;
    const Run run = instance.run(schedule);
    const Metrics& p = run.metrics;
    const double all = p.forward_us + p.backward_us + p.encode_us + p.decode_us + p.update_us + p.read_us +
                       p.exposed_communication_us;
    const Conditions& conditions = instance.conditions;
    CHECK(p.iteration_us == Approx(std::max(all, conditions.read_is_overlapped ? conditions.read_us : 0)));
    CHECK(p.encode_us == Approx(work_us(run, Kind::encode)));
    CHECK(p.decode_us == Approx(work_us(run, Kind::decode)));
    CHECK(p.update_us ==
          Approx(work_us(run, Kind::update) + work_us(run, Kind::group_update) + work_us(run, Kind::lars)));
    CHECK(p.backward_us == Approx(work_us(run, Kind::backward) + work_us(run, Kind::micro_batch_backward)));
  });
}

TEST_CASE("pipelines: between two marks lie an iteration's collectives, and nothing waits for a later task") {
  for_all([](const Instance& instance, const Schedule& schedule) {
    const Run run = instance.run(schedule);
    const Lowered& lowered = run.lowered;
    REQUIRE(lowered.after_marks.size() == lowered.marks.size());
    CHECK(sim::index(lowered.after_marks.back()) == lowered.graph.tasks().size());
    for (std::size_t mark = 0; mark < lowered.marks.size(); ++mark)
      for (const sim::TaskId task : lowered.marks[mark]) CHECK(task < lowered.after_marks[mark]);
    std::size_t mark = 0;  // the next mark
    for (std::uint32_t i = 0; i < lowered.graph.tasks().size(); ++i) {
      while (sim::TaskId{i} >= lowered.after_marks[mark]) ++mark;
      for (const sim::TaskId next : lowered.graph.successors(sim::TaskId{i})) CHECK(sim::index(next) > i);
      const TaskLabel label = TaskLabel::unpack(lowered.graph.tasks()[i].label);
      if (TaskLabel::collective(label.kind)) CHECK(label.iteration + 1 == mark);
    }
  });
}

TEST_CASE("pipelines: one worker has nothing to encode or communicate, and an efficiency of 1") {
  for_all([](Instance instance, const Schedule& schedule) {
    instance.conditions.stragglers.clear();
    instance.workers = 1;
    const Metrics got = instance.predict(schedule);
    CHECK(got.scaling_efficiency == Approx(1).epsilon(1e-6));
    CHECK(got.speedup == got.scaling_efficiency);
    CHECK(got.communication_us == 0);
    CHECK(got.exposed_communication_us == 0);
    CHECK(got.bytes_sent_per_worker == 0);
    CHECK(got.encode_us == 0);
    CHECK(got.decode_us == 0);
  });
}

/// The cost and traffic of a group's collective on a ring, by the closed forms.
struct OnRing {
  double us = 0;
  double sent = 0;
};

OnRing on_ring(const Instance& instance, const Compressor& compressor, const Algorithm& algorithm,
               bool encoded, CollectiveKind kind, double bytes) {
  const core::Link& link = *instance.network.link;
  const auto others = static_cast<double>(instance.workers - 1);
  const auto workers = static_cast<double>(instance.workers);
  const double message = encoded ? compressor.ratio * bytes : bytes;
  if (encoded && compressor.collective == CollectiveKind::all_gather)
    return {.us = others * (link.alpha_us + link.beta_us_per_byte * message), .sent = others * message};
  if (algorithm.name == "parameter_server") {
    const auto servers = static_cast<double>(algorithm.servers);
    const double bytes_us = 2 * std::max(1.0, workers / servers) * link.beta_us_per_byte;
    return {.us = 2 * link.alpha_us + (bytes_us + others / servers * link.gamma_us_per_byte) * message,
            .sent = message};
  }
  const double gamma = kind == CollectiveKind::all_gather ? 0 : link.gamma_us_per_byte;
  const double halves = kind == CollectiveKind::all_reduce ? 2 : 1;
  return {
      .us = others * (halves * link.alpha_us + (halves * link.beta_us_per_byte + gamma) * message / workers),
      .sent = halves * others / workers * message};
}

/// The collectives of one iteration, without the gather of LARS.
OnRing all_on_ring(const Instance& instance, const Run& run, const Workload& workload) {
  OnRing all;
  if (instance.workers == 1) return all;
  for (const Op& op : run.program.ops) {
    const Group& group = run.groups[op.group];
    const std::int64_t bytes = bytes_of(workload, group);
    const TransferCost& transfer = run.transfers[group.transfer];
    const OnRing one = on_ring(instance, transfer.transfer().compressor, transfer.transfer().all_reduce,
                               transfer.is_encoded(bytes), op.kind, static_cast<double>(bytes));
    const auto batches = static_cast<std::uint32_t>(instance.conditions.accumulation_steps);
    const std::uint32_t times = run.program.runs(op, batches);
    all.us += times * (one.us + sim::to_us(run.program.negotiation));
    all.sent += times * one.sent;
  }
  return all;
}

/// 4 bytes per layer; each worker sends all but its own share.
double lars_sent(const Instance& instance) {
  const auto workers = static_cast<double>(instance.workers);
  return 4.0 * static_cast<double>(instance.profile.layers.size()) * (workers - 1) / workers;
}

Time channel_busy(const Run& run) {
  Time busy{};
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (tasks[i].stream == Lowered::kChannel) busy += run.timeline.spans[i].end - run.timeline.spans[i].start;
  return busy;
}

TEST_CASE(
    "pipelines: the channel is busy for as long as its collectives cost, or as they are slowed at most") {
  for_all([](Instance instance, const Schedule& schedule) {
    for (const double sigma : {0.0, 0.2}) {
      instance.conditions.jitter.sigma = sigma;  // for compute only
      const Scene scene = instance.scene();
      const Run run = scene.run(schedule);
      const OnRing all = all_on_ring(instance, run, scene.setting.workload);
      const bool gathers_lars = scene.setting.extras.lars_gather > Time::zero();
      const double costs_us = all.us + sim::to_us(scene.setting.extras.lars_gather);
      const double busy_us =
          sim::to_us(channel_busy(run)) / static_cast<double>(instance.conditions.iterations);
      const auto batches = static_cast<double>(instance.conditions.accumulation_steps);
      const double rounding_us =
          1e-6 * batches * static_cast<double>(run.program.ops.size() + 1);  // one picosecond each
      CHECK(busy_us >= costs_us - rounding_us);
      const double slowest = 1 + instance.conditions.overlap.communication_slowdown;
      CHECK(busy_us <= slowest * costs_us + 2 * rounding_us);
      if (sigma == 0) CHECK(run.metrics.communication_us == Approx(busy_us));
      CHECK(run.metrics.bytes_sent_per_worker == Approx(all.sent + (gathers_lars ? lars_sent(instance) : 0)));
    }
  });
}

TEST_CASE("pipelines: more workers never speed up an iteration on a ring") {
  for_all([](Instance instance, const Schedule& schedule) {
    instance.conditions.parallel_tensor_operator = false;  // it distributes work among workers
    double before = 0;
    for (const std::int64_t workers : {1, 2, 3, 4, 7, 16, 100, 10'000}) {
      instance.workers = workers;
      const Run run = instance.run(schedule);
      if (may_be_unlucky(run, schedule)) return;
      CAPTURE(workers);
      CHECK(at_least(run.metrics.iteration_us, before));
      before = run.metrics.iteration_us;
    }
  });
}

TEST_CASE("pipelines: a slower network, a straggler or an update never shortens an iteration") {
  for_all([](const Instance& instance, const Schedule& schedule) {
    // with a cycle, a straggler's gradients may share a tick that they would have missed
    const bool has_cycle = schedule.fusion.kind == "threshold";
    const Run run = instance.run(schedule);
    if (may_be_unlucky(run, schedule)) return;
    const double time = run.metrics.iteration_us;
    Instance slower = instance;
    slower.network.link->beta_us_per_byte *= 2;
    slower.network.link->alpha_us += 3;
    CHECK(at_least(slower.iteration_us(schedule), time));
    Instance straggling = instance;
    straggling.conditions.optimizer_us += 5;
    CHECK(at_least(straggling.iteration_us(schedule), time));
    straggling.conditions.stragglers = {{.worker = 0, .slowdown = 3}};
    if (!has_cycle) CHECK(at_least(straggling.iteration_us(schedule), time));
  });
}

TEST_CASE(
    "pipelines: slowing each other down never shortens an iteration, nor makes it longer than the factor") {
  for_all([](Instance instance, const Schedule& schedule) {
    instance.conditions.overlap = {};
    const double time = instance.iteration_us(schedule);
    for (const Overlap overlap : {Overlap{.compute_slowdown = 0.7}, Overlap{.communication_slowdown = 0.7},
                                  Overlap{.compute_slowdown = 0.7, .communication_slowdown = 0.3}}) {
      instance.conditions.overlap = overlap;
      const Run run = instance.run(schedule);
      if (may_be_unlucky(run, schedule) && run.proof) continue;
      CHECK(at_least(run.metrics.iteration_us, time));
      CHECK(at_least(1.7 * time, run.metrics.iteration_us));
    }
  });
}

TEST_CASE("pipelines: a compressor that leaves everything as it is changes nothing") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Instance instance = random_instance(seed);
    for (Schedule schedule : schedules(instance.gathered, instance.summed)) {
      CAPTURE(schedule.name);
      if (!schedule.fusion.choices.empty()) continue;
      schedule.compressor = {.name = "x"};
      const Run compressed = instance.run(schedule);
      schedule.compressor = {};
      const Run plain = instance.run(schedule);
      CHECK(compressed.groups == plain.groups);
      CHECK(compressed.timeline == plain.timeline);
      CHECK(compressed.metrics.iteration_us == plain.metrics.iteration_us);
      CHECK(compressed.metrics.bytes_sent_per_worker == plain.metrics.bytes_sent_per_worker);
    }
  }
}

// ---- programs

/// All values of the options that change a program.
std::vector<PipelineOptions> all_options() {
  return {{},
          {.overlap_gather = false},
          {.prefetch = 1},
          {.reshard_after_forward = true},
          {.reshard_after_forward = false},
          {.reshard_after_backward = false},
          {.kept_groups = 3, .backward_prefetch = 2, .scatters_in_flight = 2},
          {.shard_workers = 2},
          {.stage = 2},
          {.all_reduces = true},
          {.credit_bytes = 1, .negotiation_us = 2}};
}

TEST_CASE("pipelines: every program delivers each group's gradients once, whole, and halves in order") {
  for (const Pipeline& pipeline : pipelines()) {
    for (const PipelineOptions& options : all_options()) {
      for (const std::uint32_t groups : {1U, 2U, 7U}) {
        CAPTURE(pipeline.name);
        CAPTURE(groups);
        std::vector<std::string> kinds(groups);
        std::vector<int> delivered(groups);
        std::vector<int> for_forward(groups);
        for (const Op& op : pipeline.program(groups, options).ops) {
          REQUIRE(op.group < groups);
          kinds[op.group] += std::string(core::name(op.kind)) + ' ';
          if (op.delivers == Delivers::own_layers || op.delivers == Delivers::next_iteration)
            ++delivered[op.group];
          if (op.issue == Issue::forward) ++for_forward[op.group];
        }
        const bool is_sharded = pipeline.name == "sharded";
        for (std::uint32_t group = 0; group < groups; ++group) {
          const std::string& all = kinds[group];
          const std::string sum = options.shard_workers ? "all_reduce " : "";
          if (is_sharded)
            CHECK((all == "all_gather reduce_scatter " + sum ||
                   all == "all_gather all_gather reduce_scatter " + sum));
          else
            CHECK((all == "all_reduce " || all == "reduce_scatter all_gather " ||
                   (options.all_reduces && all == "all_reduce all_gather ")));
          CHECK(delivered[group] == 1);
          CHECK(for_forward[group] == (is_sharded ? 1 : 0));
        }
      }
    }
  }
}

// ---- timelines

/// The times of a run's tasks by worker, kind, iteration and item; collectives belong to worker 0.
class Spans {
 public:
  explicit Spans(const Run& run) {
    const auto tasks = run.lowered.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskLabel label = TaskLabel::unpack(tasks[i].label);
      const bool is_shared = tasks[i].stream == Lowered::kChannel || tasks[i].stream == Lowered::kTicks;
      const std::size_t worker = is_shared ? 0 : Lowered::worker_of(tasks[i].stream);
      workers_ = std::max(workers_, worker + 1);
      spans_[{worker, label.kind, label.iteration, label.item}] = run.timeline.spans[i];
      if (TaskLabel::collective(label.kind)) ++collectives_;
    }
  }
  std::optional<sim::Span> find(std::size_t worker, Kind kind, std::uint32_t iteration,
                                std::uint32_t item) const {
    const auto found = spans_.find({worker, kind, iteration, item});
    return found == spans_.end() ? std::nullopt : std::optional(found->second);
  }
  sim::Span at(std::size_t worker, Kind kind, std::uint32_t iteration, std::uint32_t item) const {
    return spans_.at({worker, kind, iteration, item});
  }
  std::size_t collectives() const { return collectives_; }
  std::size_t workers() const { return workers_; }

 private:
  std::map<std::tuple<std::size_t, Kind, std::uint32_t, std::uint32_t>, sim::Span> spans_;
  std::size_t collectives_ = 0;
  std::size_t workers_ = 0;
};

/// One worker's part of one collective of one iteration.
class Journey {
 public:
  Journey(const Run& run, const Workload& workload, const Spans& spans, const Op& op, std::uint32_t iteration,
          std::size_t worker)
      : run_(run), workload_(workload), spans_(spans), op_(op), iteration_(iteration), worker_(worker) {
    const std::int64_t bytes = bytes_of(workload, group());
    const TransferCost& transfer = run.transfers[group().transfer];
    encodes_ = transfer.encode(bytes) > Time::zero();
    decodes_ = transfer.decode(bytes) > Time::zero();
    const CollectiveKind carrier = transfer.is_encoded(bytes) ? transfer.carrier(op.kind) : op.kind;
    const Kind kind = op.issue == Issue::forward                  ? Kind::forward_gather
                      : op.issue == Issue::backward               ? Kind::backward_gather
                      : carrier == CollectiveKind::all_reduce     ? Kind::all_reduce
                      : carrier == CollectiveKind::reduce_scatter ? Kind::reduce_scatter
                                                                  : Kind::all_gather;
    sent_ = spans.at(0, kind, iteration, op.group);
  }

  /// Not before its gradients, its encoding and its tick; for a pass, not before the previous pass.
  bool begins_in_time() const {
    if (op_.issue == Issue::backward && run_.program.gathers_early)
      return sent_.start >=
             spans_.at(worker_, Kind::forward, iteration_, first_forward_of_last_group()).start;
    if (op_.issue == Issue::backward)
      return sent_.start >= spans_.at(worker_, Kind::forward, iteration_, last_forward()).end;
    if (op_.issue == Issue::forward)
      return iteration_ == 0 ||
             sent_.start >= spans_.at(worker_, Kind::backward, iteration_ - 1, last_step()).end;
    for (std::uint32_t i = group().begin; i < group().end; ++i)
      if (sent_.start < gradient_end(i)) return false;
    if (encodes_) {
      const sim::Span encode = spans_.at(worker_, Kind::encode, iteration_, op_.group);
      if (sent_.start < encode.end || encode.start < gradient_end(group().end - 1)) return false;
      // after_backward: the whole pass comes first
      if (op_.issue == Issue::backward_end && encode.start < last_backward().end) return false;
    } else if (spans_.find(worker_, Kind::encode, iteration_, op_.group)) {
      return false;
    }
    if (op_.issue == Issue::backward_end && sent_.start < last_backward().end) return false;
    return sent_.start >= spans_.at(worker_, Kind::backward, iteration_, 0).start + group().tick;
  }

  /// Decoded after it has arrived, everything is encoded and backward has ended; then updated and used. For a
  /// pass: used in it.
  bool is_delivered_in_time() const {
    if (op_.delivers == Delivers::own_pass) return is_there_for_its_pass();
    if (op_.delivers == Delivers::nothing) return true;
    const bool to_layers = op_.delivers == Delivers::own_layers;
    const std::uint32_t when = iteration_ + (to_layers ? 1 : 0);
    Time usable = sent_.end;
    const std::optional<sim::Span> decode = spans_.find(worker_, Kind::decode, when, op_.group);
    if (decode.has_value() != decodes_) return false;
    if (decode) {
      if (decode->start < sent_.end || decode->start < last_backward().end) return false;
      for (std::uint32_t other = 0; other < run_.groups.size(); ++other)
        if (const auto encode = spans_.find(worker_, Kind::encode, iteration_, other))
          if (decode->start < encode->end) return false;
      usable = decode->end;
    }
    if (const auto update = spans_.find(worker_, to_layers ? Kind::group_update : Kind::update, when,
                                        to_layers ? op_.group : 0);
        update && op_.issue != Issue::updated) {
      if (update->start < usable) return false;
      usable = update->end;
    }
    for (std::uint32_t i = group().begin; i < group().end; ++i)
      if (const auto forward =
              spans_.find(worker_, Kind::forward, iteration_ + 1, workload_.gradients[i].layer))
        if (forward->start < usable) return false;
    return true;
  }

 private:
  /// By the first micro-batch in forward, by the last in backward.
  bool is_there_for_its_pass() const {
    for (std::uint32_t i = group().begin; i < group().end; ++i) {
      const std::uint32_t layer = workload_.gradients[i].layer;
      if (op_.issue == Issue::forward) {
        if (spans_.at(worker_, Kind::forward, iteration_, layer).start < sent_.end) return false;
        continue;
      }
      for (std::uint32_t step = 0; step < workload_.backward.size(); ++step)
        if (workload_.backward[step].layer == layer &&
            spans_.at(worker_, Kind::backward, iteration_, step).start < sent_.end)
          return false;
    }
    return true;
  }

  const Group& group() const { return run_.groups[op_.group]; }
  std::uint32_t last_step() const { return static_cast<std::uint32_t>(workload_.backward.size() - 1); }
  /// Its layers, numbered through micro-batches.
  std::uint32_t last_forward() const {
    auto item = static_cast<std::uint32_t>(workload_.forward.size() - 1);
    while (spans_.find(worker_, Kind::forward, iteration_, item + 1)) ++item;
    return item;
  }
  /// The first forward pass of the group that backward uses first, in the last micro-batch.
  std::uint32_t first_forward_of_last_group() const {
    const auto layers = static_cast<std::uint32_t>(workload_.forward.size());
    return last_forward() + 1 - layers + workload_.gradients[run_.groups.front().end - 1].layer;
  }
  Time gradient_end(std::uint32_t i) const {
    return spans_.at(worker_, Kind::backward, iteration_, workload_.gradients[i].backward_step).end;
  }
  sim::Span last_backward() const { return spans_.at(worker_, Kind::backward, iteration_, last_step()); }

  const Run& run_;
  const Workload& workload_;
  const Spans& spans_;
  const Op& op_;
  std::uint32_t iteration_;
  std::size_t worker_;
  bool encodes_ = false;
  bool decodes_ = false;
  sim::Span sent_;
};

void check_journeys(const Instance& instance, const Schedule& schedule) {
  const Scene scene = instance.scene();
  const Run run = support::run_whole(scene, schedule);
  const Spans spans(run);
  if (instance.workers == 1) {
    CHECK(spans.collectives() == 0);
    return;
  }
  const bool jitters = instance.conditions.jitter.sigma > 0;
  CHECK(spans.workers() == static_cast<std::size_t>(jitters ? instance.workers : 1));
  std::size_t collectives = 0;
  for (const Op& op : run.program.ops)
    collectives += run.program.runs(op, static_cast<std::uint32_t>(instance.conditions.accumulation_steps));
  CHECK(spans.collectives() == collectives * static_cast<std::size_t>(instance.conditions.iterations));
  bool begin_in_time = true;
  bool delivered_in_time = true;
  for (std::uint32_t iteration = 0; iteration < instance.conditions.iterations; ++iteration)
    for (const Op& op : run.program.ops)
      for (std::size_t worker = 0; worker < spans.workers(); ++worker) {
        const Journey journey(run, scene.setting.workload, spans, op, iteration, worker);
        begin_in_time = begin_in_time && journey.begins_in_time();
        delivered_in_time = delivered_in_time && journey.is_delivered_in_time();
      }
  CHECK(begin_in_time);
  CHECK(delivered_in_time);
}

TEST_CASE(
    "pipelines: no gradient travels before it is ready and encoded, and no layer runs forward without its "
    "parameters, decoded and updated") {
  for_all([](const Instance& instance, const Schedule& schedule) { check_journeys(instance, schedule); });
}

TEST_CASE("pipelines: with jitter no worker's gradients travel before they are ready, and none runs ahead") {
  for_all([](Instance instance, const Schedule& schedule) {
    instance.conditions.jitter = {.sigma = 0.3, .seed = 2};
    check_journeys(instance, schedule);
  });
}

}  // namespace
}  // namespace planner
