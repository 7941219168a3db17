// What the simulator and the planner take, one line each: time (best of several), peak memory, and the ratio
// to a fixed piece of work timed in the same run, because machines are shared and noisy.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/alloc_counter.hpp"
#include "planner/predict.hpp"
#include "scenarios/run.hpp"
#include "sim/simulate.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Measurement {
  double ms = 0;
  std::size_t peak_bytes = 0;  ///< allocated above what was live before
};

template <typename Work>
Measurement measure(int repetitions, Work work) {
  Measurement best;
  const std::size_t before = bench::live_bytes();
  bench::reset_peak();
  for (int i = 0; i < repetitions; ++i) {
    const auto start = Clock::now();
    work();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    best.ms = i == 0 ? ms : std::min(best.ms, ms);
  }
  best.peak_bytes = bench::peak_bytes() - before;
  return best;
}

/// A million pushes and pops on a priority queue that holds 2,048: what a simulator's inner loop costs here.
double reference_ms() {
  return measure(5,
                 [] {
                   std::mt19937 random(1);
                   std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue;
                   for (int i = 0; i < 2048; ++i) queue.push(random());
                   for (int i = 0; i < 1'000'000; ++i) {
                     const std::uint64_t now = queue.top();
                     queue.pop();
                     queue.push(now + random() % 4096);
                   }
                   if (queue.empty()) fmt::print("never\n");
                 })
      .ms;
}

void report(const std::string& what, const Measurement& result, double reference, double bound_ms) {
  fmt::print("{:<72} {:>10.3f} ms  {:>7.3f} x reference  {:>8.2f} MB  bound {:g} ms\n", what, result.ms,
             result.ms / reference, static_cast<double>(result.peak_bytes) / 1e6, bound_ms);
}

/// A model of `tensors` tensors, a weight and a small one by turns as in convolution and batch norm, in
/// layers of one, backward 200 ms in all.
traces::Profile profile_of(std::size_t tensors) {
  std::mt19937 random(7);
  traces::Profile profile = {
      .model = "bench", .batch_size = 64, .device = "none", .origin = {}, .layers = {}};
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto elements =
        static_cast<std::int64_t>(i % 3 == 0 ? 1000 + random() % 1'000'000 : 64 + random() % 2000);
    const double us =
        1 + 400e3 / static_cast<double>(tensors) * static_cast<double>(random() % 1000) / 1000.0;
    profile.layers.push_back({.name = fmt::format("layer{}", i),
                              .kind = "bench",
                              .forward_us = us / 2,
                              .backward_us = us,
                              .tensors = {{.name = fmt::format("tensor{}", i), .elements = elements}}});
  }
  return profile;
}

traces::Network network() {
  return {.name = "10gbe",
          .origin = {},
          .link = traces::Link{.alpha_us = 45.25, .beta_us_per_byte = 0.00099, .gamma_us_per_byte = 0.0001},
          .line_rate_gbps = {},
          .levels = {},
          .measured = {}};
}

/// What the exact planner takes for a schedule, from what it is given to the groups.
void bench_optimal(const std::string& what, std::size_t tensors, const char* schedule_json, double alpha_us,
                   double bound_ms, double reference) {
  const traces::Profile profile = profile_of(tensors);
  traces::Network net = network();
  net.link->alpha_us = alpha_us;
  const planner::Setting setting(profile, net, 64, {}, {});
  const planner::Schedule schedule = planner::read_schedule(models::Field::parse(schedule_json, "bench"));
  planner::OptimalGroups found;
  const Measurement result = measure(tensors > 1000 ? 3 : 20, [&] {
    const planner::FusionRequest request(setting, schedule);
    found = request.model().optimal({});
  });
  report(fmt::format("exact plan, {}, {} tensors: {} groups, front {}{}", what, tensors, found.groups.size(),
                     found.largest_front, found.may_be_off_by > sim::Time::zero() ? ", NOT exact" : ""),
         result, reference, bound_ms);
}

/// How many given plans a second can be evaluated.
void bench_evaluate(const char* schedule_json) {
  const traces::Profile profile = profile_of(161);
  const traces::Network net = network();
  const planner::Setting setting(profile, net, 64, {}, {});
  const planner::Schedule schedule = planner::read_schedule(models::Field::parse(schedule_json, "bench"));
  const planner::FusionRequest request(setting, schedule);
  planner::Groups groups;
  for (std::uint32_t i = 0; i < request.workload.gradient_count(); ++i)
    groups.push_back({.begin = i, .end = i + 1});
  constexpr int kTimes = 20'000;
  const Measurement result = measure(5, [&] {
    for (int i = 0; i < kTimes; ++i)
      if (planner::evaluate(request, groups) == sim::Time::zero()) fmt::print("never\n");
  });
  fmt::print("{:<72} {:>10.0f} a second  bound 100000\n",
             fmt::format("plans evaluated, 161 tensors alone, {}", schedule.name), kTimes / result.ms * 1e3);
}

void bench_sweep(double reference) {
  scenarios::Scenario scenario = {.name = "bench",
                                  .profile = profile_of(161),
                                  .network = network(),
                                  .workers = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
                                  .schedules = planner::lossless_schedules(),
                                  .all_reduce = {},
                                  .conditions = {},
                                  .warnings = {},
                                  .file = models::Field::parse("{}", "bench")};
  scenario.schedules.resize(10);
  const Measurement result = measure(10, [&] { (void)scenarios::run(scenario); });
  report("sweep, 10 worker counts x 10 schedules, 161 tensors, 3 iterations", result, reference, 50);
}

/// Two streams; each task waits for the one before it on its stream and for a recent one of the other stream.
sim::TaskGraph large_graph(std::uint32_t tasks) {
  sim::TaskGraphBuilder builder;
  const sim::StreamId streams[] = {builder.add_stream("compute"), builder.add_stream("channel")};
  builder.reserve(tasks, 2UL * tasks);
  std::mt19937 random(3);
  for (std::uint32_t i = 0; i < tasks; ++i) {
    builder.add_task({.duration = sim::Time(1000 + random() % 1'000'000), .stream = streams[i % 2]});
    if (i >= 2) builder.add_dependency(sim::TaskId{i - 2}, sim::TaskId{i});
    if (i >= 9)
      builder.add_dependency(sim::TaskId{static_cast<std::uint32_t>(i - 3 - 2 * (random() % 3))},
                             sim::TaskId{i});
  }
  return std::move(builder).build();
}

void bench_simulate(double reference) {
  constexpr std::uint32_t kTasks = 1'000'000;
  const std::size_t before = bench::live_bytes();
  bench::reset_peak();
  const sim::TaskGraph graph = large_graph(kTasks);
  const std::size_t built = bench::peak_bytes() - before;
  const Measurement result = measure(5, [&] {
    if (sim::simulate(graph).makespan == sim::Time::zero()) fmt::print("never\n");
  });
  report(fmt::format("simulate, {} tasks, {} dependencies", kTasks, graph.dependency_count()), result,
         reference, 250);
  const std::size_t running = bench::live_bytes() - before + result.peak_bytes;
  fmt::print("{:<64} {:>10.1f} bytes while built, {:.1f} while run  bound 64\n", "memory per task",
             static_cast<double>(built) / kTasks, static_cast<double>(running) / kTasks);
}

}  // namespace

int main() {
  const double reference = reference_ms();
  fmt::print("{:<64} {:>10.3f} ms\n", "reference: 1,000,000 steps of a priority queue of 2,048", reference);
  bench_sweep(reference);
  const char* const wfbp = R"({"fusion": "optimal"})";
  const char* const dear = R"({"pipeline": "dear", "fusion": "optimal"})";
  const char* const encoded = R"({"fusion": "optimal", "compression": {"name": "sparse", "ratio": 0.02,
    "encode": {"us_per_byte": 8.5e-5, "floor_us": 356}}})";
  const char* const decoded = R"({"fusion": "optimal", "compression": "dgc"})";
  bench_optimal("wfbp", 161, wfbp, 45.25, 1, reference);
  bench_optimal("wfbp", 604, wfbp, 45.25, 10, reference);
  bench_optimal("wfbp", 10'000, wfbp, 45.25, 1000, reference);
  bench_optimal("wfbp, no alpha", 161, wfbp, 0, 1, reference);
  bench_optimal("wfbp, no alpha", 604, wfbp, 0, 10, reference);
  bench_optimal("wfbp, no alpha", 10'000, wfbp, 0, 1000, reference);
  for (const std::size_t tensors : {161U, 207U, 314U}) {
    bench_optimal("compressed, decoding free", tensors, encoded, 45.25, 1, reference);
    bench_optimal("compressed", tensors, decoded, 45.25, 10, reference);
  }
  bench_optimal("dear", 161, dear, 45.25, 5, reference);
  bench_optimal("dear", 604, dear, 45.25, 100, reference);
  for (const char* const schedule : {wfbp, encoded, decoded, dear}) bench_evaluate(schedule);
  bench_simulate(reference);
}
