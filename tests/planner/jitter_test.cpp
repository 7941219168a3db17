// Jitter: every worker's random times and their effect on the time line, against a recurrence without tasks.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/job/registry.hpp"
#include "sim/draws.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using doctest::Approx;
using sim::Time;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::run_whole;
using support::Scene;
using support::schedule_of;
using Kind = TaskLabel::Kind;

constexpr const char* kSummed =
    R"({"name": "x", "ratio": 0.5, "collective": "all_reduce",
        "encode": {"startup_us": 1, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}})";

core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

/// The named schedules and further combinations; compressed ones use this compressor, whose results must be
/// summable.
std::vector<Schedule> schedules(const std::string& compressor = kSummed) {
  std::vector<Schedule> out = lossless_schedules();
  for (const char* members :
       {R"("name": "grace")", R"("name": "hipress")", R"("name": "cupcake")", R"("name": "s-sgd")",
        R"("name": "dear-no-fusion")", R"("pipeline": "zero", "overlap_gather": false)",
        R"("name": "horovod", "fusion": {"kind": "threshold", "cycle_us": 40})"})
    out.push_back(schedule_of(fmt::format(R"({{{}, "compression": {}}})", members, compressor)));
  out.push_back(schedule_of(R"({"pipeline": "zero", "overlap_gather": false})"));
  return out;
}

// ---- the recurrence

constexpr int kChannel = -1;

/// Identifies a task by worker (or kChannel), kind, iteration and item.
using Which = std::tuple<int, Kind, std::uint32_t, std::uint32_t>;
using Spans = std::map<Which, sim::Span>;

/// The recurrence for wfbp, after_backward or dear with one group per tensor, without ticks or micro-batches:
/// all times follow from when workers and channel are free.
class Recurrence {
 public:
  Recurrence(const Scene& scene, const Schedule& schedule)
      : setting_(scene.setting),
        nominal_(make_workload(scene.profile)),
        transfer_(scene.network, scene.setting.costs.workers(),
                  {.compressor = schedule.compressor, .selective = schedule.selective}),
        pipeline_(schedule.pipeline->name),
        free_(static_cast<std::size_t>(scene.setting.costs.workers())),
        issued_(free_.size(), std::vector<Time>(nominal_.gradients.size())),
        delivered_(nominal_.gradients.size()) {}

  Spans run() {
    for (iteration_ = 0; iteration_ < setting_.conditions.iterations; ++iteration_) {
      for (int worker = 0; worker < workers(); ++worker) forward(worker);
      for (int worker = 0; worker < workers(); ++worker) backward(worker);
      if (pipeline_ == "dear")
        in_halves();
      else
        at_once();
    }
    if (pipeline_ == "dear")
      for (int worker = 0; worker < workers(); ++worker) forward(worker);
    return spans_;
  }

 private:
  int workers() const { return static_cast<int>(free_.size()); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(nominal_.gradients.size()); }
  Time& free(int worker) { return free_[static_cast<std::size_t>(worker)]; }
  std::int64_t bytes(std::uint32_t group) const { return nominal_.gradients[group].bytes; }

  Time update_of(std::uint32_t group) const {
    return group_update(nominal_, {.update = sim::from_us(setting_.conditions.optimizer_us)}, group,
                        group + 1);
  }

  double slowdown(int worker) const {
    for (const Straggler& straggler : setting_.conditions.stragglers)
      if (straggler.worker == worker) return straggler.slowdown;
    return 1;
  }

  void compute(int worker, Kind kind, std::uint32_t item, Time duration) {
    if (duration == Time::zero() && kind != Kind::forward && kind != Kind::backward) return;
    const Jitter& jitter = setting_.conditions.jitter;
    const std::uint64_t bits = sim::hash(jitter.seed, worker, iteration_, static_cast<int>(kind), item);
    const double factor = slowdown(worker) * sim::lognormal_mean_one(bits, jitter.sigma);
    const Time begin = free(worker);
    free(worker) += Time{std::llround(static_cast<double>(duration.count()) * factor)};
    spans_[{worker, kind, iteration_, item}] = {begin, free(worker)};
  }

  void send(Kind kind, std::uint32_t group, core::CollectiveKind collective, Time issued) {
    const Time begin = std::max(channel_, issued);
    channel_ = begin + transfer_.time(collective, bytes(group));
    spans_[{kChannel, kind, iteration_, group}] = {begin, channel_};
  }

  Time all_issued(std::uint32_t group) const {
    Time at{};
    for (const auto& of_worker : issued_) at = std::max(at, of_worker[group]);
    return at;
  }

  void encode(int worker, std::uint32_t group) {
    compute(worker, Kind::encode, group, transfer_.encode(bytes(group)));
    issued_[static_cast<std::size_t>(worker)][group] = free(worker);
  }

  void forward(int worker) {
    for (std::uint32_t layer = 0; layer < nominal_.forward.size(); ++layer) {
      for (std::uint32_t group = groups(); pipeline_ == "dear" && iteration_ > 0 && group-- > 0;) {
        if (nominal_.gradients[group].layer != layer) continue;
        free(worker) = std::max(free(worker), delivered_[group]);
        compute(worker, Kind::decode, group, transfer_.decode(bytes(group)));
        compute(worker, Kind::group_update, group, update_of(group));
      }
      compute(worker, Kind::forward, layer, nominal_.forward[layer]);
    }
  }

  void backward(int worker) {
    std::uint32_t group = 0;
    for (std::uint32_t step = 0; step < nominal_.backward.size(); ++step) {
      compute(worker, Kind::backward, step, nominal_.backward[step].duration);
      while (group < groups() && nominal_.gradients[group].backward_step == step) {
        if (pipeline_ != "after_backward") encode(worker, group);
        ++group;
      }
    }
    for (group = 0; pipeline_ == "after_backward" && group < groups(); ++group) encode(worker, group);
  }

  void at_once() {
    const bool gathers =
        transfer_.carrier(core::CollectiveKind::all_reduce) != core::CollectiveKind::all_reduce;
    for (std::uint32_t group = 0; group < groups(); ++group) {
      const bool gathered = gathers && transfer_.is_encoded(bytes(group));
      send(gathered ? Kind::all_gather : Kind::all_reduce, group, core::CollectiveKind::all_reduce,
           all_issued(group));
      delivered_[group] = channel_;
    }
    for (int worker = 0; worker < workers(); ++worker) {
      for (std::uint32_t group = 0; group < groups(); ++group) {
        if (transfer_.decode(bytes(group)) == Time::zero()) continue;
        free(worker) = std::max(free(worker), delivered_[group]);
        compute(worker, Kind::decode, group, transfer_.decode(bytes(group)));
      }
      free(worker) = std::max(free(worker), channel_);
      compute(worker, Kind::update, 0, sim::from_us(setting_.conditions.optimizer_us));
    }
  }

  void in_halves() {
    for (std::uint32_t group = 0; group < groups(); ++group)
      send(Kind::reduce_scatter, group, core::CollectiveKind::reduce_scatter, all_issued(group));
    const Time drained = std::max(channel_, *std::max_element(free_.begin(), free_.end()));
    for (Time& free : free_) free = std::max(free, channel_);
    for (std::uint32_t group = groups(); group-- > 0;) {
      send(Kind::all_gather, group, core::CollectiveKind::all_gather, drained);
      delivered_[group] = channel_;
    }
  }

  const Setting& setting_;
  Workload nominal_;
  TransferCost transfer_;
  std::string_view pipeline_;
  std::vector<Time> free_;                 // by worker
  std::vector<std::vector<Time>> issued_;  // by worker and group
  std::vector<Time> delivered_;            // by group
  Time channel_{};
  std::uint32_t iteration_ = 0;
  Spans spans_;
};

Spans spans_of(const Run& run) {
  Spans out;
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    const bool is_channel = tasks[i].stream == Lowered::kChannel;
    const int worker = is_channel ? kChannel : static_cast<int>(Lowered::worker_of(tasks[i].stream));
    out[{worker, label.kind, label.iteration, label.item}] = run.timeline.spans[i];
  }
  return out;
}

/// The first task with different times, or that one of the two lacks.
std::string first_difference(const Spans& expected, const Spans& got) {
  const auto describe = [](const Spans::value_type& entry) {
    const auto& [worker, kind, iteration, item] = entry.first;
    return fmt::format("worker {} kind {} iteration {} item {}: {}-{}", worker, static_cast<int>(kind),
                       iteration, item, entry.second.start.count(), entry.second.end.count());
  };
  for (const auto& entry : expected) {
    const auto found = got.find(entry.first);
    if (found == got.end()) return describe(entry) + " is not there";
    if (found->second != entry.second) return describe(entry) + " expected, got " + describe(*found);
  }
  for (const auto& entry : got)
    if (expected.count(entry.first) == 0) return describe(entry) + " is not expected";
  return "";
}

TEST_CASE(
    "jitter: a run is the recurrence over workers, in which a collective waits for the last to issue it") {
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 5);
    const core::Network network = support::random_link(random);
    Conditions conditions = {.iterations = random.between(1, 4),
                             .optimizer_us = static_cast<double>(random.one_in(2) ? 0 : random.below(90)),
                             .jitter = {.sigma = 0.3, .seed = seed}};
    if (random.one_in(2)) conditions.stragglers = {{.worker = random.between(0, 3), .slowdown = 1.5}};
    const Scene scene(profile, network, random.between(2, 6), conditions);
    for (const char* pipeline : {"wfbp", "after_backward", "dear"}) {
      for (const char* compressor : {R"("none")", kSummed}) {
        const Schedule schedule =
            schedule_of(fmt::format(R"({{"pipeline": "{}", "compression": {}}})", pipeline, compressor));
        CAPTURE(schedule.name);
        CHECK(first_difference(Recurrence(scene, schedule).run(), spans_of(run_whole(scene, schedule))) ==
              "");
      }
    }
  }
}

// ---- random times

/// The duration of each forward and backward task of each worker.
std::map<Which, Time> forward_and_backward(const Run& run) {
  std::map<Which, Time> out;
  const auto tasks = run.lowered.graph.tasks();
  for (const sim::Task& task : tasks) {
    const TaskLabel label = TaskLabel::unpack(task.label);
    const int worker = static_cast<int>(Lowered::worker_of(task.stream));
    if (label.kind == Kind::forward || label.kind == Kind::backward)
      out[{worker, label.kind, label.iteration, label.item}] = task.duration;
  }
  return out;
}

Run run_with(const Jitter& jitter, const char* schedule, std::int64_t workers = 3,
             Conditions conditions = {}) {
  conditions.jitter = jitter;
  return run_whole(Scene(two_layers(), pair_of(2, 0.1), workers, conditions), schedule_of(schedule));
}

TEST_CASE("jitter: the same seed gives the same run, another seed another") {
  const Jitter jitter = {.sigma = 0.2, .seed = 7};
  CHECK(run_with(jitter, R"("wfbp")").timeline == run_with(jitter, R"("wfbp")").timeline);
  const auto draws = forward_and_backward(run_with(jitter, R"("wfbp")"));
  for (const std::uint64_t seed : {0U, 6U, 8U}) {
    const auto others = forward_and_backward(run_with({.sigma = 0.2, .seed = seed}, R"("wfbp")"));
    REQUIRE(others.size() == draws.size());
    for (const auto& [which, duration] : draws) CHECK(others.at(which) != duration);
  }
}

TEST_CASE("jitter: no two tasks, iterations or workers share a draw") {
  const Run run = run_with({.sigma = 0.2}, R"("wfbp")", 3, {.iterations = 4});
  const Workload nominal = make_workload(two_layers());
  std::vector<double> factors;
  for (const auto& [which, duration] : forward_and_backward(run)) {
    const auto& [worker, kind, iteration, item] = which;
    const Time whole = kind == Kind::forward ? nominal.forward[item] : nominal.backward[item].duration;
    factors.push_back(sim::to_us(duration) / sim::to_us(whole));
  }
  std::sort(factors.begin(), factors.end());
  CHECK(factors.size() == 3 * 4 * 4);
  for (std::size_t i = 1; i < factors.size(); ++i) CHECK(factors[i] - factors[i - 1] > 1e-6);
}

TEST_CASE("jitter: what a worker draws for forward and backward depends on no schedule and no other worker") {
  const Conditions conditions = {.iterations = 4};
  for (const double sigma : {0.05, 0.5}) {
    const auto all = forward_and_backward(run_with({.sigma = sigma}, R"("wfbp")", 6, conditions));
    CHECK(all.size() == 6 * 4 * 4);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      for (const std::int64_t workers : {1, 2, 6}) {
        Conditions with_jitter = conditions;
        with_jitter.jitter.sigma = sigma;
        const Scene scene(two_layers(), pair_of(2, 0.1), workers, with_jitter);
        std::size_t known = 0;
        for (const auto& [which, duration] : forward_and_backward(run_whole(scene, schedule))) {
          if (all.count(which) == 0) continue;  // the forward pass that ends the last iteration of dear
          ++known;
          CHECK(all.at(which) == duration);
        }
        CHECK(known == static_cast<std::size_t>(workers) * 4 * 4);
      }
    }
  }
}

TEST_CASE("jitter: a straggler's draws are those it would have drawn, times its slow-down") {
  const auto usual = forward_and_backward(run_with({.sigma = 0.2}, R"("wfbp")"));
  const auto slowed = forward_and_backward(
      run_with({.sigma = 0.2}, R"("wfbp")", 3, {.stragglers = {{.worker = 1, .slowdown = 2}}}));
  for (const auto& [which, duration] : usual) {
    const double factor = std::get<0>(which) == 1 ? 2 : 1;
    CHECK(sim::to_us(slowed.at(which)) == Approx(factor * sim::to_us(duration)).epsilon(1e-6));
  }
}

TEST_CASE("jitter: encoding, decoding and updates draw too, collectives, reading and ticks do not") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2,
                    {.read_us = 7,
                     .read_is_overlapped = false,
                     .optimizer_us = 3,
                     .lars_us = 2,
                     .parallel_tensor_operator = true,
                     .jitter = {.sigma = 0.2}});
  for (const char* members : {R"("name": "horovod", "fusion": {"kind": "threshold", "cycle_us": 3})",
                              R"("pipeline": "dear")", R"("pipeline": "zero", "overlap_gather": false)"}) {
    const Schedule schedule = schedule_of(fmt::format(R"({{{}, "compression": {}}})", members, kSummed));
    CAPTURE(schedule.name);
    const Run run = run_whole(scene, schedule);
    std::map<std::pair<Kind, std::uint32_t>, std::vector<Time>> durations;
    for (const sim::Task& task : run.lowered.graph.tasks()) {
      const TaskLabel label = TaskLabel::unpack(task.label);
      durations[{label.kind, label.item}].push_back(task.duration);
    }
    for (auto& [which, all] : durations) {
      const Kind kind = which.first;
      CAPTURE(static_cast<int>(kind));
      std::sort(all.begin(), all.end());
      const bool alike = all.front() == all.back();
      const bool distinct = std::adjacent_find(all.begin(), all.end()) == all.end();
      const bool is_compute = kind == Kind::forward || kind == Kind::backward || kind == Kind::encode ||
                              kind == Kind::decode || kind == Kind::update || kind == Kind::group_update ||
                              kind == Kind::lars;
      CHECK((is_compute ? distinct : alike));
    }
  }
}

TEST_CASE("jitter: selective, what is encoded is decided before anything is drawn") {
  // 80 bytes arrive after 10 us uncompressed and after 2.5 + 5 + 2 us encoded, but after 10.625 us from a
  // straggler
  const char* const selective = R"({"name": "hipress", "compression": {"name": "x", "ratio": 0.5,
      "encode": {"startup_us": 1.5, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}}})";
  const auto encoded = [&](const Jitter& jitter, const Conditions& conditions) {
    std::size_t count = 0;
    const Run run = run_with(jitter, selective, 2, conditions);
    for (const sim::Task& task : run.lowered.graph.tasks())
      if (TaskLabel::unpack(task.label).kind == Kind::encode) ++count;
    return count;
  };
  const Conditions straggling = {.iterations = 3, .stragglers = {{.worker = 0, .slowdown = 1.25}}};
  CHECK(encoded({}, {.iterations = 3}) == 3);  // of the slowest worker
  CHECK(encoded({.sigma = 0.2}, {.iterations = 3}) == 2 * 3);
  CHECK(encoded({}, straggling) == 0);
  CHECK(encoded({.sigma = 0.2}, straggling) == 0);
}

// ---- effect on an iteration

void check_same(const Metrics& one, const Metrics& other, double epsilon) {
  for (double Metrics::*number :
       {&Metrics::iteration_us, &Metrics::forward_us, &Metrics::backward_us, &Metrics::encode_us,
        &Metrics::decode_us, &Metrics::update_us, &Metrics::read_us, &Metrics::communication_us,
        &Metrics::bytes_sent_per_worker, &Metrics::throughput_samples_per_s, &Metrics::speedup,
        &Metrics::scaling_efficiency})
    CHECK(std::abs(one.*number - other.*number) <= epsilon * (other.*number));
  // the rounding remainder of the others
  CHECK(std::abs(one.exposed_communication_us - other.exposed_communication_us) <=
        epsilon * one.iteration_us);
}

TEST_CASE("jitter: with sigma 0 a run is the one without, bit for bit, whatever the seed") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    const std::int64_t workers = random.between(1, 5);
    for (const Schedule& schedule : schedules()) {
      CAPTURE(schedule.name);
      conditions.jitter = {};
      const Run without = Scene(profile, network, workers, conditions).run(schedule);
      conditions.jitter = {.sigma = 0, .seed = 99};
      const Run with = Scene(profile, network, workers, conditions).run(schedule);
      CHECK(with.timeline == without.timeline);
      CHECK(with.groups == without.groups);
      check_same(with.metrics, without.metrics, 0);
    }
  }
}

TEST_CASE("jitter: as it vanishes, every worker by itself gives what the slowest alone gives") {
  // with so small a sigma a random factor is 1 up to its last bits
  for (std::uint32_t seed = 0; seed < support::seeds(150); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.overlap = support::random_overlap(random);
    // in dear a worker reads when it is idle: a faster worker may finish reading, and then slow the channel
    // down by computing, while the slowest still reads
    conditions.read_is_overlapped |= conditions.overlap.slows();
    const std::int64_t workers = random.between(1, 5);
    for (const Schedule& schedule : schedules(support::random_compressor(random, "all_reduce"))) {
      CAPTURE(schedule.name);
      conditions.jitter.sigma = 0;
      const Metrics without = Scene(profile, network, workers, conditions).run(schedule).metrics;
      conditions.jitter.sigma = 1e-15;
      const Metrics with = Scene(profile, network, workers, conditions).run(schedule).metrics;
      check_same(with, without, 1e-6);
    }
  }
}

TEST_CASE("jitter: one worker's iterations are its own draws and nothing else") {
  for (const char* pipeline : {"wfbp", "after_backward"}) {
    const Run run =
        run_with({.sigma = 0.4, .seed = 3}, fmt::format(R"({{"pipeline": "{}"}})", pipeline).c_str(), 1,
                 {.iterations = 5, .optimizer_us = 2});
    Time forward{};
    Time backward{};
    Time update{};
    for (const sim::Task& task : run.lowered.graph.tasks()) {
      const TaskLabel label = TaskLabel::unpack(task.label);
      if (label.iteration == 0) continue;
      if (label.kind == Kind::forward) forward += task.duration;
      if (label.kind == Kind::backward) backward += task.duration;
      if (label.kind == Kind::update) update += task.duration;
    }
    CHECK(run.metrics.iteration_us == Approx(sim::to_us(forward + backward + update) / 4).epsilon(1e-12));
    CHECK(run.metrics.forward_us == Approx(sim::to_us(forward) / 4).epsilon(1e-6));
    CHECK(run.metrics.backward_us == Approx(sim::to_us(backward) / 4).epsilon(1e-6));
    CHECK(run.metrics.update_us == Approx(sim::to_us(update) / 4).epsilon(1e-6));
    CHECK(run.metrics.exposed_communication_us <= 1e-5);
    CHECK(run.metrics.communication_us == 0);
    CHECK(run.metrics.speedup == Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("jitter: over many iterations one worker's mean is that without jitter") {
  constexpr int kIterations = 4000;
  for (const double sigma : {0.1, 0.5}) {
    // the sum of independent random times: each task of d us has variance d^2 (exp(sigma^2) - 1)
    const double deviation = std::sqrt((4.0 + 9 + 25 + 16) * (std::exp(sigma * sigma) - 1) / kIterations);
    for (const char* schedule : {R"("wfbp")", R"("dear-nl")"}) {
      const Metrics got = run_with({.sigma = sigma}, schedule, 1, {.iterations = kIterations}).metrics;
      CHECK(std::abs(got.iteration_us - 14) < 4 * deviation);
    }
  }
}

TEST_CASE("jitter: the longer tasks spread, the longer an iteration of several workers takes on average") {
  for (const char* schedule : {R"("s-sgd")", R"("wfbp")", R"("dear-no-fusion")",
                               R"({"pipeline": "zero", "overlap_gather": false})", R"("horovod")"}) {
    CAPTURE(schedule);
    double before = run_with({.sigma = 0}, schedule, 4).metrics.iteration_us;
    for (const double sigma : {0.1, 0.2, 0.4, 0.8}) {
      const double now = run_with({.sigma = sigma}, schedule, 4, {.iterations = 1000}).metrics.iteration_us;
      CHECK(now > before);
      before = now;
    }
  }
}

TEST_CASE(
    "jitter: the mean of an iteration grows with the number of workers, at the same cost on the network") {
  double before = 0;
  for (const std::int64_t workers : {1, 2, 4, 16}) {
    const Scene scene(two_layers(), support::link_of(0, 0), workers,
                      {.iterations = 500, .jitter = {.sigma = 0.3}});
    const double now = scene.run(schedule_of(R"("wfbp")")).metrics.iteration_us;
    CHECK(now > before);
    before = now;
  }
}

TEST_CASE("jitter: no worker and no update ever shortens a run") {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    Conditions conditions = {.jitter = {.sigma = 0.3, .seed = seed}};
    for (const Schedule& schedule : schedules()) {
      // groups and transfers may depend on the number of workers
      if (schedule.fusion.kind == "mg-wfbp" || schedule.fusion.kind == "optimal" || schedule.selective)
        continue;
      CAPTURE(schedule.name);
      conditions.optimizer_us = 0;
      Time before{};
      for (const std::int64_t workers : {1, 2, 3, 5}) {
        const Time now = Scene(profile, network, workers, conditions).run(schedule).timeline.makespan;
        CHECK(now >= before);
        before = now;
      }
      conditions.optimizer_us = 9;
      CHECK(Scene(profile, network, 5, conditions).run(schedule).timeline.makespan >= before);
    }
  }
}

// ---- numbers

TEST_CASE("jitter: compute is told of the worker that computes longest over the iterations that count") {
  const Conditions conditions = {.iterations = 4, .optimizer_us = 3};
  struct Case {
    const char* schedule;
    std::uint32_t first_forward;  ///< an iteration of dear ends with the forward pass of the next
  };
  for (const Case& each : {Case{R"("wfbp")", 1}, Case{R"("dear-no-fusion")", 2}}) {
    CAPTURE(each.schedule);
    const Run run = run_with({.sigma = 0.3, .seed = 5}, each.schedule, 5, conditions);
    std::vector<double> forward(5);
    std::vector<double> backward(5);
    for (const auto& [which, duration] : forward_and_backward(run)) {
      const auto& [worker, kind, iteration, item] = which;
      const bool is_forward = kind == Kind::forward;
      if (iteration < (is_forward ? each.first_forward : 1)) continue;
      (is_forward ? forward : backward)[static_cast<std::size_t>(worker)] += sim::to_us(duration) / 3;
    }
    std::size_t slowest = 0;
    for (std::size_t worker = 0; worker < 5; ++worker)
      if (forward[worker] + backward[worker] > forward[slowest] + backward[slowest]) slowest = worker;
    CHECK(run.metrics.forward_us == Approx(forward[slowest]).epsilon(1e-6));
    CHECK(run.metrics.backward_us == Approx(backward[slowest]).epsilon(1e-6));
    const Metrics& p = run.metrics;
    CHECK(p.exposed_communication_us > 0);
    CHECK(p.iteration_us ==
          Approx(p.forward_us + p.backward_us + p.update_us + p.exposed_communication_us).epsilon(1e-6));
  }
}

TEST_CASE("jitter: speed-up is against one worker that jitters as the first does") {
  const Metrics four = run_with({.sigma = 0.3}, R"("wfbp")", 4, {.iterations = 50}).metrics;
  const Metrics one = run_with({.sigma = 0.3}, R"("wfbp")", 1, {.iterations = 50}).metrics;
  CHECK(four.speedup == Approx(4 * one.iteration_us / four.iteration_us).epsilon(1e-6));
  const Metrics slowed = run_with({.sigma = 0.3}, R"("wfbp")", 4,
                                  {.iterations = 50, .stragglers = {{.worker = 0, .slowdown = 3}}})
                             .metrics;
  CHECK(slowed.speedup == Approx(4 * one.iteration_us / slowed.iteration_us).epsilon(1e-6));
}

TEST_CASE("jitter: overlapped input makes the mean as long as reading takes at least") {
  const Metrics got = run_with({.sigma = 0.3}, R"("wfbp")", 3, {.read_us = 1000}).metrics;
  CHECK(got.iteration_us == 1000);
  CHECK(got.speedup == 3);
}

}  // namespace
}  // namespace planner
