// How many samples the prediction intervals of a scenario take: as many as a second allows, counted in steps.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "planner/scenarios/run.hpp"
#include "tests/support/random_scenario.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;

ordered_json scenario_on(std::int64_t workers) {
  ordered_json network = support::network_json();
  network["link"] = {{"alpha_us", 10}, {"beta_us_per_byte", 0.001}};
  return {{"format", "fusewise.scenario"},
          {"version", 1},
          {"profile", support::profile_json({{{"name", "l"},
                                              {"kind", "k"},
                                              {"forward_us", 100},
                                              {"backward_us", 200},
                                              {"forward_spread_us", 10},
                                              {"tensors", {{{"name", "t"}, {"elements", 1000}}}}}})},
          {"network", network},
          {"workers", {workers}},
          {"schedules", {"wfbp"}}};
}

/// All workers differ by jitter, so that each of them is simulated: a sample takes about as many steps as 15
/// times the tasks of all workers.
Results results_on(std::int64_t workers, const RunOptions& options = {}) {
  ordered_json scenario = scenario_on(workers);
  scenario["jitter"] = {{"distribution", "lognormal"}, {"sigma", 0.1}, {"seed", 1}};
  return run(read_scenario(core::Field::parse(scenario.dump(), "s.json")), options);
}

TEST_CASE("intervals: samples are fewer where one takes longer, and none is taken where 40 are too many") {
  const auto few = results_on(1000);
  REQUIRE(few.entries[0].interval.has_value());
  CHECK(few.entries[0].interval->samples == planner::kMaxSamples);
  CHECK(few.warnings.empty());

  const auto many = results_on(100'000);
  REQUIRE(many.entries[0].interval.has_value());
  CHECK(many.entries[0].interval->samples >= planner::kMinSamples);
  CHECK(many.entries[0].interval->samples < planner::kMaxSamples);
  CHECK(many.warnings.empty());

  const auto too_many = results_on(1'000'000);
  CHECK(!too_many.entries[0].interval.has_value());
  REQUIRE(too_many.warnings.size() == 1);
  CHECK(too_many.warnings[0].starts_with(
      "1000000 workers, schedule 'wfbp': no interval, as 40 simulations of "));
  CHECK(too_many.warnings[0].ends_with(" steps are too many; --samples 40 makes it"));
}

TEST_CASE("intervals: thousands of short simulations are too many, too, as each has costs of its own") {
  constexpr std::size_t kMany = 5000;
  ordered_json scenario = scenario_on(4);
  scenario["workers"] = {2, 3, 4, 5};
  const auto has_interval = [&](std::size_t entries) {
    scenario["schedules"] = std::vector<std::string>(entries, "wfbp");
    const auto results = run(read_scenario(core::Field::parse(scenario.dump(), "s.json")), {});
    return results.entries.back().interval.has_value();
  };
  CHECK(has_interval(2));
  CHECK(!has_interval(kMany));
}

TEST_CASE("intervals: a number of samples that was asked for is taken, and 0 takes none") {
  const auto asked = results_on(1000, {.samples = 7});
  REQUIRE(asked.entries[0].interval.has_value());
  CHECK(asked.entries[0].interval->samples == 7);
  const auto none = results_on(1'000'000, {.samples = 0});
  CHECK(!none.entries[0].interval.has_value());
  CHECK(none.warnings.empty());
}

// The layers vary by about 30 %, so that the intervals of both schedules overlap; but whatever they take, one
// all-reduce of 40 us before the other layer's backward is faster than the same after it.
TEST_CASE("intervals: schedules are compared by the same samples") {
  ordered_json scenario = scenario_on(2);
  for (std::size_t i = 0; i < 2; ++i) {
    ordered_json& layer = scenario["profile"]["layers"][i];
    layer = scenario["profile"]["layers"][0];
    layer["name"] = "l" + std::to_string(i);
    layer["tensors"][0]["name"] = "t" + std::to_string(i);
    layer["forward_spread_us"] = 40;
    layer["backward_spread_us"] = 80;
  }
  scenario["schedules"] = {"s-sgd", "wfbp"};
  const auto results = run(read_scenario(core::Field::parse(scenario.dump(), "s.json")), {});
  const Entry& slow = results.entries[0];
  const Entry& fast = results.entries[1];
  REQUIRE(slow.metrics.iteration_us > fast.metrics.iteration_us);
  REQUIRE(slow.interval->low_us < fast.interval->high_us);
  CHECK(slow.interval->slower_share == 1);
  CHECK(!fast.interval->slower_share);
  CHECK(!is_as_fast(slow, fast));
}

}  // namespace
}  // namespace scenarios
