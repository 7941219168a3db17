// The schedule that plans where none is named: with the all-reduce of the scenario's schedules.

#include "planner/scenarios/default_schedule.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/files.hpp"
#include "planner/scenarios/run.hpp"
#include "tests/support/program.hpp"

namespace scenarios {
namespace {

/// ResNet-50 on nodes of eight workers, with these schedules.
Scenario on_nodes(const std::string& schedules) {
  const std::string file = (support::source_dir() / "scenarios" / "resnet50-v100-job.json").string();
  auto json = nlohmann::ordered_json::parse(core::read_file(file));
  json.erase("job");
  json["schedules"] = nlohmann::ordered_json::parse(schedules);
  return read_scenario(core::Field::parse(json.dump(), file));
}

double planned_us(const Scenario& scenario, const planner::Schedule& schedule) {
  return plan(scenario, 128, schedule).plan.iteration_us;
}

constexpr const char* kTwoLevel = R"({"pipeline": "wfbp", "collectives": {"all_reduce": "two_level"}})";
constexpr const char* kTree = R"({"pipeline": "wfbp", "collectives": {"all_reduce": "double_binary_tree"}})";

TEST_CASE("default schedule: it has the all-reduce of the scenario's schedules, and no schedule is faster") {
  const planner::Schedule named = planner::preset_schedule("fusewise");
  const Scenario scenario = on_nodes(std::string("[") + kTwoLevel + "]");
  const planner::Schedule found = default_schedule(scenario, 128, named);
  REQUIRE(found.all_reduce.has_value());
  CHECK(found.all_reduce->name == "two_level");
  CHECK(planned_us(scenario, found) < planned_us(scenario, named));
  CHECK(planned_us(scenario, found) <= planned_us(scenario, scenario.schedules.front()));
}

TEST_CASE("default schedule: of several all-reduces it has the one with the fastest plan") {
  const planner::Schedule named = planner::preset_schedule("fusewise");
  for (const std::string& both : {std::string("[") + kTwoLevel + ", " + kTree + ", \"wfbp\"]",
                                  std::string("[\"wfbp\", ") + kTree + ", " + kTwoLevel + "]"}) {
    const Scenario scenario = on_nodes(both);
    CHECK(all_reduces(scenario).size() == 3);
    double best_us = planned_us(scenario, named);
    for (planner::Schedule tried : scenario.schedules) {
      planner::Schedule with = named;
      with.all_reduce = tried.all_reduce;
      best_us = std::min(best_us, planned_us(scenario, with));
    }
    CHECK(planned_us(scenario, default_schedule(scenario, 128, named)) == best_us);
  }
}

TEST_CASE("default schedule: a schedule of the scenario is planned as it is there") {
  const Scenario scenario = on_nodes(std::string("[\"fusewise\", ") + kTwoLevel + "]");
  CHECK_FALSE(default_schedule(scenario, 128, scenario.schedules.front()).all_reduce.has_value());
  const Scenario usual = on_nodes(R"(["wfbp"])");
  CHECK_FALSE(default_schedule(usual, 128, planner::preset_schedule("fusewise")).all_reduce.has_value());
}

/// Two layers on a network of which only these collectives were measured on two workers.
Scenario measured_only(const std::vector<std::string>& kinds, const std::string& schedules) {
  std::string measured;
  for (const std::string& kind : kinds)
    measured +=
        (measured.empty() ? "" : ", ") +
        fmt::format(R"({{"collective": "{}", "workers": 2, "curve": [[1, 10], [4000000, 1000]]}})", kind);
  const std::string layer =
      R"({{"name": "{}", "kind": "linear", "forward_us": 1000, "backward_us": 2000, "tensors": [{{"name": "{}.w", "elements": 500000}}]}})";
  return read_scenario(core::Field::parse(
      fmt::format(
          R"({{"format": "fusewise.scenario", "version": 1, "workers": 2, "profile": {{"format": "fusewise.profile",
              "version": 1, "model": "m", "batch_size": 1, "dtype": "float32", "device": "d",
              "origin": {{"kind": "measured", "source": "s"}}, "layers": [{}, {}]}},
              "network": {{"format": "fusewise.network", "version": 1, "name": "n",
              "origin": {{"kind": "measured", "source": "s"}}, "measured": [{}]}}{}}})",
          fmt::format(fmt::runtime(layer), "a", "a"), fmt::format(fmt::runtime(layer), "b", "b"), measured,
          schedules),
      "s.json"));
}

TEST_CASE(
    "default schedule: where reduce-scatters and all-gathers alone are known, it does without all-reduces") {
  const planner::Schedule named = planner::preset_schedule("fusewise");
  const std::vector<std::string> halves = {"reduce_scatter", "all_gather"};
  const Scenario usual = measured_only(halves, "");
  CHECK(default_schedule(usual, 2, named).name == "fsdp optimal");
  CHECK(planned_us(usual, default_schedule(usual, 2, named)) > 0);
  CHECK(run(usual).entries.size() == usual.schedules.size());  // each has a cost
  REQUIRE(usual.warnings.size() == 1);
  CHECK(usual.warnings[0] ==
        "network 'n' did not measure all-reduces: the usual schedules that send them are left out");
  const Scenario own = measured_only(halves, R"(, "schedules": ["wfbp", "zero", "fsdp"])");
  CHECK(default_schedule(own, 2, named).name == "zero");
  CHECK(own.warnings.empty());
  const Scenario all = measured_only({"reduce_scatter", "all_gather", "all_reduce"}, "");
  CHECK(default_schedule(all, 2, named).name == "fusewise");
  CHECK(all.schedules.size() > usual.schedules.size());
}

TEST_CASE("default schedule: where all that the scenario names shard parameters, one of them") {
  const planner::Schedule named = planner::preset_schedule("fusewise");
  const auto chosen = [&](const std::string& schedules) {
    const Scenario scenario = measured_only({"reduce_scatter", "all_gather", "all_reduce"},
                                            fmt::format(R"(, "schedules": [{}])", schedules));
    return default_schedule(scenario, 2, named).name;
  };
  CHECK(chosen(R"("fsdp2", {"name": "fsdp2", "fusion": "optimal"})") == "fsdp2 optimal");
  CHECK(chosen(R"("fsdp2", "fsdp")") == "fsdp2");
  CHECK(chosen(R"("fsdp2", "ddp")") == "fusewise");
  CHECK(chosen(R"("zero1")") == "fusewise");
  const Scenario halves = measured_only({"reduce_scatter", "all_gather"},
                                        R"(, "schedules": [{"name": "hsdp", "shard_workers": 2}, "fsdp2"])");
  CHECK(default_schedule(halves, 2, named).name == "fsdp2");  // hsdp sends all-reduces, too
}

}  // namespace
}  // namespace scenarios
