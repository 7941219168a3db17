// The numbers of results: finite, not negative and in order, whatever the magnitudes of the scenario, or the
// scenario is refused because its times exceed the clock.

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"
#include "tests/support/random_scenario.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;
using support::profile_json;

Results results_of(const ordered_json& scenario) {
  return run(read_scenario(core::Field::parse(scenario.dump(), "s.json"), true));
}

/// The message with which a scenario is refused; empty if it is not.
std::string refusal(const ordered_json& scenario) {
  try {
    (void)results_of(scenario);
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "";
}

/// One layer with one tensor of 1,000 elements.
ordered_json one_layer(double forward_us, double backward_us) {
  return profile_json({{{"name", "l"},
                        {"kind", "k"},
                        {"forward_us", forward_us},
                        {"backward_us", backward_us},
                        {"tensors", {{{"name", "t"}, {"elements", 1000}}}}}});
}

ordered_json network(double alpha_us, double beta_us_per_byte = 0) {
  ordered_json out = support::network_json();
  out["link"] = {{"alpha_us", alpha_us}, {"beta_us_per_byte", beta_us_per_byte}};
  return out;
}

constexpr const char* kTooLong =
    "expected times that add up to at most 9000000000000 us over all iterations, got ";

// ---- sums over all workers

TEST_CASE("numbers: sums over all workers are exact where they exceed the clock of one") {
  // 64 workers compute for 2 x 10^12 us each, one of them half as long again; nothing is sent.
  ordered_json scenario = support::scenario_json(one_layer(1e11, 1e11), network(0));
  scenario.update({{"workers", 64},
                   {"schedules", {"wfbp"}},
                   {"iterations", 10},
                   {"stragglers", {{{"worker", 3}, {"slowdown", 1.5}}}}});
  const Results results = results_of(scenario);
  const planner::WorkerReport& report = results.entries.front().by_worker.value();
  CHECK(results.entries.front().metrics.iteration_us == 3e11);
  CHECK(report.utilisation.compute == doctest::Approx((63.0 / 1.5 + 1) / 64).epsilon(1e-12));
  // 63 workers wait for 10^11 us in each iteration
  REQUIRE(report.waited_for.size() == 1);
  CHECK(report.waited_for.front().worker == 3);
  CHECK(report.waited_for.front().us == doctest::Approx(63e11).epsilon(1e-12));
}

// ---- the clock

TEST_CASE("numbers: rank by rank the clock counts what runs, the link, and not a measured curve") {
  ordered_json scenario = support::scenario_json(one_layer(1000, 1000), network(7e11, 0.001));
  scenario["network"]["measured"] = {
      {{"collective", "all_reduce"}, {"workers", 8}, {"curve", {{1, 10}, {1'000'000, 20}}}}};
  scenario.update({{"workers", 8}, {"schedules", {"wfbp"}}, {"iterations", 2}});
  CHECK(results_of(scenario).entries.front().metrics.iteration_us == doctest::Approx(2010).epsilon(1e-3));
  for (const char* fidelity : {"steps", "messages"}) {
    scenario["fidelity"] = fidelity;
    CHECK(refusal(scenario).starts_with(fmt::format("s.json: /workers: {}", kTooLong)));
  }
  // the other way round: the link fits, and the curve is not looked at
  scenario["network"]["link"]["alpha_us"] = 1;
  scenario["network"]["measured"][0]["curve"] = {{1, 1e12}};
  for (const char* fidelity : {"steps", "messages"}) {
    scenario["fidelity"] = fidelity;
    CHECK(results_of(scenario).entries.front().metrics.iteration_us == doctest::Approx(2021).epsilon(1e-3));
  }
}

TEST_CASE("numbers: rank by rank times are refused exactly where they exceed the clock, by any algorithm") {
  // A message takes alpha; the chains of an all-reduce among 8 ranks are as long as the closed forms say.
  const std::vector<std::pair<std::string, double>> chains = {
      {"ring", 14}, {"binary_tree", 6}, {"recursive_doubling", 3}, {"halving_doubling", 6}};
  for (const auto& [algorithm, messages] : chains) {
    const auto& the_algorithm = algorithm;  // clang 14 cannot capture a structured binding
    CAPTURE(the_algorithm);
    for (const char* fidelity : {"steps", "messages"}) {
      CAPTURE(fidelity);
      ordered_json scenario = support::scenario_json(one_layer(1, 1), network(0));
      scenario.update({{"workers", 8},
                       {"schedules", {"sync-easgd"}},
                       {"collectives", {{"all_reduce", algorithm}}},
                       {"fidelity", fidelity},
                       {"iterations", 1}});
      scenario["network"]["link"]["alpha_us"] = std::floor(8.9e12 / 10 / messages);
      scenario["iterations"] = 10;
      CHECK(results_of(scenario).entries.front().metrics.iteration_us ==
            doctest::Approx(8.9e11).epsilon(1e-6));
      scenario["network"]["link"]["alpha_us"] = std::floor(9.1e12 / 10 / messages);
      CHECK(refusal(scenario).starts_with(fmt::format("s.json: /workers: {}", kTooLong)));
    }
  }
}

TEST_CASE(
    "numbers: contributions that 64 bits cannot count are refused message by message, not in closed form") {
  // 100 workers gather 1,000 times 4 x 10^15 bytes each
  ordered_json scenario = support::scenario_json(one_layer(1, 1), network(1));
  ordered_json& tensors = scenario["profile"]["layers"][0]["tensors"];
  tensors.clear();
  for (int i = 0; i < 1000; ++i)
    tensors.push_back({{"name", fmt::format("t{}", i)}, {"elements", 1'000'000'000'000}});
  const ordered_json compressor = {{"name", "x"}, {"ratio", 1000}, {"collective", "all_gather"}};
  scenario.update({{"workers", 100},
                   {"iterations", 1},
                   {"schedules", {{{"name", "grace"}, {"fusion", "all"}, {"compression", compressor}}}}});
  const Results closed = results_of(scenario);
  CHECK(closed.entries.front().metrics.bytes_sent_per_worker == doctest::Approx(99 * 4e18));
  CHECK(closed.warnings.empty());
  scenario["fidelity"] = "steps";
  CHECK(refusal(scenario) ==
        "s.json: /workers: expected collectives of at most 1e+18 bytes, got 4e+20 (schedule 'grace all "
        "all_gather x 1000')");
}

// ---- the smallest and the largest

TEST_CASE("numbers: iterations that random factors leave nothing of are refused") {
  // a layer of a picosecond, whose factor is often below a half
  ordered_json scenario = support::scenario_json(one_layer(1e-6, 0), network(0));
  scenario.update({{"workers", 1}, {"schedules", {"wfbp"}}, {"iterations", 1}});
  int refused = 0;
  for (int seed = 0; seed < 20; ++seed) {
    scenario["jitter"] = {{"distribution", "lognormal"}, {"sigma", 2}, {"seed", seed}};
    const std::string message = refusal(scenario);
    if (message.empty()) continue;
    ++refused;
    CHECK(message ==
          "s.json: /jitter: expected iterations of at least 1 picosecond in all, got less (schedule 'wfbp')");
  }
  CHECK(refused > 0);
}

TEST_CASE("numbers: an epoch's iterations are counted where the samples of one exceed 64 bits") {
  ordered_json scenario = support::scenario_json(one_layer(1, 1), network(1));
  scenario["profile"]["batch_size"] = 1'000'000'000'000;
  scenario.update({{"workers", 1'000'000},
                   {"accumulation_steps", 10'000},
                   {"schedules", {"wfbp"}},
                   {"job", {{"samples", 1'000'000'000'000}, {"phases", {{{"epochs", 2}}}}}}});
  const PhaseResult phase = results_of(scenario).jobs.front().phases.front();
  CHECK(phase.iterations_per_epoch == 1);
  CHECK(phase.seconds == doctest::Approx(2 * phase.iteration_us / 1e6));
  scenario["profile"]["batch_size"] = 3;
  scenario["workers"] = 7;
  scenario["accumulation_steps"] = 2;
  scenario["job"]["samples"] = 43;  // 42 samples to the iteration
  CHECK(results_of(scenario).jobs.front().phases.front().iterations_per_epoch == 2);
}

// ---- any scenario

void check_number(double value) {
  CHECK(std::isfinite(value));
  CHECK(value >= 0);
}

void check_share(double value) {
  check_number(value);
  CHECK(value <= 1);
}

void check_spread(const planner::Spread& spread) {
  for (const double value : {spread.mean_us, spread.p50_us, spread.p95_us, spread.p99_us, spread.max_us})
    check_number(value);
  CHECK(spread.p50_us <= spread.p95_us);
  CHECK(spread.p95_us <= spread.p99_us);
  CHECK(spread.p99_us <= spread.max_us);
  CHECK(spread.mean_us <= spread.max_us * (1 + 1e-12));
}

void check_times(const std::vector<planner::WorkerTime>& times, std::int64_t workers) {
  for (const planner::WorkerTime& each : times) {
    check_number(each.us);
    CHECK(each.worker < workers);
  }
}

void check_workers(const planner::WorkerReport& report, std::int64_t workers) {
  check_spread(report.iteration);
  check_spread(report.waiting);
  check_times(report.waited_for, workers);
  check_share(report.utilisation.compute);
  check_share(report.utilisation.channel);
  for (const planner::LinkUse& link : report.utilisation.links) check_share(link.share);
  if (!report.critical_path) return;
  check_number(report.critical_path->computing_us);
  check_number(report.critical_path->communicating_us);
  check_number(report.critical_path->untraced_us);
  check_times(report.critical_path->workers, workers);
  check_times(report.critical_path->senders, workers);
}

void check_entry(const Entry& entry) {
  const planner::Metrics& m = entry.metrics;
  for (const double value :
       {m.iteration_us, m.forward_us, m.backward_us, m.encode_us, m.decode_us, m.update_us, m.read_us,
        m.communication_us, m.exposed_communication_us, m.bytes_sent_per_worker, m.throughput_samples_per_s,
        m.speedup, m.scaling_efficiency})
    check_number(value);
  CHECK(m.iteration_us > 0);
  CHECK(m.exposed_communication_us <= m.iteration_us);
  CHECK((m.groups >= 1 || !entry.stages.empty()));  // a stage on one worker sends nothing
  if (entry.by_worker) check_workers(*entry.by_worker, m.workers);
  if (entry.memory)
    for (const std::int64_t bytes : entry.memory->bytes) CHECK(bytes >= 0);
  if (!entry.interval) return;
  check_number(entry.interval->low_us);
  CHECK(entry.interval->low_us <= entry.interval->high_us);
  check_number(entry.interval->high_us);
}

/// A refusal is one line that names a place.
void check_refusal(const std::string& message) {
  CAPTURE(message);
  CHECK(message.starts_with("s.json: /"));
  CHECK(message.find(": expected ") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("numbers: of any scenario finite, not negative, shares up to 1 and percentiles in order") {
  std::map<std::string, int> simulated;
  int refused = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    support::AnyScenario any(seed);
    const ordered_json scenario = any.make();
    try {
      const Results results = results_of(scenario);
      for (const Entry& entry : results.entries) {
        CAPTURE(entry.metrics.workers);
        CAPTURE(entry.schedule);
        check_entry(entry);
      }
      const std::string json = results_json(results);
      CHECK(json.find("null") == std::string::npos);
      for (const JobResult& job : results.jobs) {
        check_number(job.seconds);
        check_number(job.cost.value());
      }
      ++simulated[any.fidelity()];
      for (const char* part : {"job", "memory", "parallel"})
        simulated[part] += scenario.contains(part) ? 1 : 0;
    } catch (const core::InputError& error) {
      check_refusal(error.what());
      ++refused;
    }
  }
  for (const char* fidelity : {"closed", "steps", "messages"}) CHECK(simulated[fidelity] > 0);
  for (const char* part : {"job", "memory", "parallel"})  // few seeds of a sanitized build have one
    CHECK((support::kSanitized || simulated[part] > 0));
  CHECK(refused > 0);
}

}  // namespace
}  // namespace scenarios
