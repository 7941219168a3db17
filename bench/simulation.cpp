#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/inputs.hpp"
#include "bench/measure.hpp"
#include "planner/run/worker_report.hpp"
#include "planner/scenarios/run.hpp"
#include "sim/simulate.hpp"

namespace bench {
namespace {

void bench_sweep() {
  scenarios::Scenario scenario = {.name = "bench",
                                  .profile = profile_of(161),
                                  .network = network_of(),
                                  .workers = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
                                  .schedules = planner::lossless_schedules(),
                                  .all_reduce = {},
                                  .conditions = {},
                                  .warnings = {},
                                  .file = core::Field::parse("{}", "bench")};
  scenario.schedules.resize(10);
  const Measurement result = measure(10, [&] { (void)scenarios::run(scenario); });
  report("sweep, 10 worker counts x 10 schedules, 161 tensors, 3 iterations", result, {.ms = 50});
}

/// Two streams; each task waits for the previous one on its stream and for a recent one of the other stream.
sim::TaskGraph large_graph(std::uint32_t tasks, bool interferes) {
  sim::TaskGraphBuilder builder;
  const sim::StreamId compute = builder.add_stream("compute");
  const sim::StreamId channel = builder.add_stream("channel");
  if (interferes) {
    builder.slow_down(compute, {channel}, 1.3);
    builder.slow_down(channel, {compute}, 1.1);
  }
  builder.reserve(tasks, 2UL * tasks);
  std::mt19937 random(3);
  for (std::uint32_t i = 0; i < tasks; ++i) {
    builder.add_task(
        {.duration = sim::Time(1000 + random() % 1'000'000), .stream = i % 2 == 0 ? compute : channel});
    if (i >= 2) builder.add_dependency(sim::TaskId{i - 2}, sim::TaskId{i});
    if (i >= 9)
      builder.add_dependency(sim::TaskId{static_cast<std::uint32_t>(i - 3 - 2 * (random() % 3))},
                             sim::TaskId{i});
  }
  return std::move(builder).build();
}

void bench_simulate() {
  constexpr std::uint32_t kTasks = 1'000'000;
  const auto simulate = [](const sim::TaskGraph& graph) {
    return measure(5, [&] {
      if (sim::simulate(graph).makespan == sim::Time::zero()) fmt::print("never\n");
    });
  };
  const std::size_t before = live_bytes();
  reset_peak();
  const sim::TaskGraph graph = large_graph(kTasks, false);
  const std::size_t built = peak_bytes() - before;
  const std::size_t kept = live_bytes() - before;
  const Measurement result = simulate(graph);
  report(fmt::format("simulate, {} tasks, {} dependencies", kTasks, graph.dependency_count()), result,
         {.ms = 250});
  report("simulate, as many, either stream slows the other", simulate(large_graph(kTasks, true)));
  for (const auto& [when, bytes] : {std::pair{"built", built}, {"run", kept + result.peak_bytes}})
    fmt::print("{:<80} {:>10.1f} bytes  bound 64\n", fmt::format("memory per task while {}", when),
               static_cast<double>(bytes) / kTasks);
}

planner::Run run_of(const planner::Setting& setting, const char* schedule) {
  return planner::run(setting, schedule_of(schedule));
}

/// A model of the size of ResNet-152, on several numbers of workers.
void bench_workers() {
  const core::Profile profile = profile_of(467);
  const core::Network network = network_of();
  planner::Conditions conditions = {.iterations = 10, .jitter = {.sigma = 0.1}};
  for (const char* schedule : {R"("wfbp")", R"("ddp")", R"("dear-fb")"}) {
    const planner::Setting setting(profile, network, 2048, {}, conditions);
    report(fmt::format("each of 2048 workers draws, 467 tensors, 10 iterations, {}", schedule),
           measure(2, [&] { (void)run_of(setting, schedule); }), {.ms = 1000});
  }
  const core::Profile smaller = profile_of(160);
  for (const std::int64_t workers : {16'384, 131'072}) {
    const planner::Setting setting(smaller, network, workers, {}, conditions);
    report(fmt::format("closed, each of {} workers draws, 160 tensors, 10 iterations, \"wfbp\"", workers),
           measure(2, [&] { (void)planner::report_workers(setting, run_of(setting, R"("wfbp")")); }),
           workers > 100'000 ? Bound{.ms = 3000, .mb = 300} : Bound{});
  }
  conditions.iterations = 2;
  conditions.fidelity = planner::Fidelity::steps;
  conditions.links.slow = {{.worker = 3, .slowdown = 1.1}};
  conditions.jitter = {};
  double alike = 0;
  for (const double sigma : {0.0, 0.1}) {
    conditions.jitter.sigma = sigma;
    const planner::Setting setting(profile, network, 2048, {}, conditions);
    const Measurement result = measure(2, [&] { (void)run_of(setting, R"("wfbp")"); });
    report(fmt::format("steps, wfbp, 2048 workers, 467 tensors, 2 iterations, {}",
                       sigma == 0 ? "none draws" : "each draws"),
           result);
    if (sigma == 0) alike = result.ms;
    if (sigma > 0)
      fmt::print("{:<80} {:>10.2f} x  bound 2\n", "  with draws, of that without", result.ms / alike);
  }
  conditions.iterations = 1;
  conditions.jitter = {};
  const core::Profile few = profile_of(54);
  const planner::Setting setting(few, network, 2048, {}, conditions);
  report("steps, 54 rings on 2048 ranks, with critical path and waiting",
         measure(20, [&] { (void)run_of(setting, R"("wfbp")"); }), {.ms = 4});
  const planner::Setting large(few, network, 131'072, {}, conditions);
  report("steps, 54 rings on 131072 ranks, with critical path and waiting",
         measure(2, [&] { (void)run_of(large, R"("wfbp")"); }), {.ms = 1000, .mb = 400});
}

}  // namespace

void simulation() {
  bench_sweep();
  bench_simulate();
  bench_workers();
}

}  // namespace bench
