// The key `parallel` of scenarios: what is printed for stages, and where it is refused.

#include <string>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/divided_plan.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/scenarios/scenario.hpp"

namespace {

/// Two layers of 1 us forward and 2 us backward, each a stage; an all-reduce of two workers takes 10 us.
std::string scenario(
    const std::string& members,
    const std::string& parallel = R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2}})") {
  return R"({"format": "fusewise.scenario", "version": 1, "workers": 4, "profile": {"format": "fusewise.profile",
    "version": 1, "model": "m", "batch_size": 8, "dtype": "float32", "device": "d",
    "origin": {"kind": "estimated", "source": "s"}, "layers": [
      {"name": "a", "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "a.w", "elements": 10}]},
      {"name": "b", "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "b.w", "elements": 10}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated",
    "source": "s"}, "link": {"alpha_us": 3, "beta_us_per_byte": 0.1}},
    "parallel": )" +
         parallel + members + "}";
}

scenarios::Scenario read(
    const std::string& members,
    const std::string& parallel = R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2}})") {
  return scenarios::read_scenario(core::Field::parse(scenario(members, parallel), "s.json"), true);
}

// stage 0  F1 0-1 F2 1-2 B1 4-6 B2 7-9, A 9-19; stage 1  F1 1-2 B1 2-4 F2 4-5 B2 5-7, A 7-17
TEST_CASE("scenario: stages have a table and a list of their own") {
  const scenarios::Results results = scenarios::run(read(R"(, "schedules": ["wfbp"])"));
  REQUIRE(results.entries.size() == 1);
  CHECK(results.entries.front().metrics.iteration_us == 19);
  const std::string table = scenarios::results_table(results);
  CHECK(table.find("      4  wfbp           2         0.019       0.010       0.010") != std::string::npos);
  CHECK(
      table.find("      4  wfbp          0       1       0.002        0.004      0.003       0.010          "
                 "0.009   0.019") != std::string::npos);
  CHECK(table.find("iteration = forward + backward + bubble + exposed communication") != std::string::npos);
  CHECK(scenarios::results_json(results).find(R"("passes_end_us": 7.0)") != std::string::npos);
}

TEST_CASE("scenario: every stage has a plan, whose workers are those of its data group") {
  const scenarios::Scenario scenario = read(R"(, "schedules": ["wfbp"])");
  const scenarios::DividedPlan found = scenarios::divided_plan(scenario, 4, scenario.schedules.front(), "");
  REQUIRE(found.parts.size() == 2);
  CHECK(found.whole.iteration_us == 19);
  CHECK(found.parts[1].stage == 1);
  CHECK(found.parts[1].plan.workers == 2);
  REQUIRE(found.parts[1].plan.groups.size() == 1);
  CHECK(found.parts[1].plan.groups[0].tensors == std::vector<std::string>{"b.w"});
  CHECK(found.parts[1].plan.groups[0].bytes == 40);
  CHECK(scenarios::divided_plan_text(found).find("stage 1") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(scenarios::divided_plan_json(found));
  const planner::PlanFile again =
      planner::read_plan_file(core::Field::parse(json["parts"][1]["plan"].dump(), "p.json"));
  CHECK(again.groups[0].tensors == found.parts[1].plan.groups[0].tensors);
}

TEST_CASE("scenario: a plan for a stage says how many workers shard, and its emission has the mesh") {
  std::string text =
      scenario(R"(, "schedules": [{"name": "hsdp", "fusion": "none", "reshard_after_forward": false}])");
  const std::string link = R"("link": {"alpha_us": 3, "beta_us_per_byte": 0.1})";
  text.replace(text.find(link), link.size(),
               R"("levels": [{"name": "inside", "size": 2, "link": {"alpha_us": 1, "beta_us_per_byte": 0.1}},
                  {"name": "between", "link": {"alpha_us": 3, "beta_us_per_byte": 0.1}}])");
  const scenarios::Scenario scenario = scenarios::read_scenario(core::Field::parse(text, "s.json"), true);
  const auto found = scenarios::divided_plan(scenario, 16, scenario.schedules.front(), "fsdp");
  REQUIRE(found.parts.size() == 2);
  for (const scenarios::PartPlan& part : found.parts) {
    CHECK(part.plan.workers == 8);
    CHECK(part.plan.options == planner::PipelineOptions{.reshard_after_forward = false,
                                                        .scatters_in_flight = 1,
                                                        .shard_workers = 2});
  }
  CHECK(found.emission->text.find(R"(init_device_mesh("cuda", (4, 2))") != std::string::npos);
}

TEST_CASE("scenario: an emission for stages prices each in the whole job, and other targets refuse them") {
  const scenarios::Scenario scenario = read(R"(, "schedules": [{"pipeline": "zero", "fusion": "none"}])");
  const auto emission = [&](const char* target) {
    return *scenarios::divided_plan(scenario, 4, scenario.schedules.front(), target).emission;
  };
  const planner::Emission fsdp = emission("fsdp");
  REQUIRE(fsdp.json["stages"].size() == 2);
  CHECK(fsdp.json["stages"][1]["stage"] == 1);
  const double planned_us = scenarios::run(scenario).entries.front().metrics.iteration_us;
  for (const auto& stage : fsdp.json["stages"]) CHECK(stage["iteration_us"].get<double>() == planned_us);
  CHECK(fsdp.text.find("# stage 1\n") != std::string::npos);
  const planner::Emission megatron = emission("megatron");
  CHECK(megatron.json["stages"].size() == 1);
  CHECK(megatron.text.find("--ddp-bucket-size") != std::string::npos);
  CHECK_THROWS_WITH_AS(
      emission("ddp"),
      "--emit: expected one of fsdp, megatron for a scenario with the key parallel, got 'ddp'",
      core::InputError);
}

// The copy of a.w is the first gradient of the last part, too, whose layer c has no tensor of its own.
TEST_CASE("scenario: an emission tells a tied tensor's parts from each other") {
  std::string text = scenario(R"(, "schedules": [{"pipeline": "wfbp", "fusion": "all"}])",
                              R"({"pipeline": 2, "tied_tensors": [{"tensor": "a.w", "layer": "c"}],
          "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [1, 2]}})");
  const std::string last = R"({"name": "b.w", "elements": 10}]})";
  text.insert(text.find(last) + last.size(),
              R"(, {"name": "c", "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": []})");
  const scenarios::Scenario scenario = scenarios::read_scenario(core::Field::parse(text, "s.json"), true);
  const planner::Emission megatron =
      *scenarios::divided_plan(scenario, 4, scenario.schedules.front(), "megatron").emission;
  REQUIRE(megatron.json["stages"].size() == 1);
  CHECK(megatron.json["stages"][0]["iteration_us"].get<double>() ==
        scenarios::run(scenario).entries.front().metrics.iteration_us);
  CHECK_THROWS_WITH_AS(scenarios::divided_plan(scenario, 4, scenario.schedules.front(), "fsdp"),
                       "s.json: /parallel/tied_tensors: expected no tied_tensors with --emit fsdp, as FSDP2 "
                       "does not sum them, got some",
                       core::InputError);
}

TEST_CASE("scenario: what does not know stages refuses them in one line") {
  const std::string schedules = R"(, "schedules": ["wfbp"])";
  const auto refused = [](const auto& work, const char* message) {
    CHECK_THROWS_WITH_AS(work(), message, core::InputError);
  };
  refused([&] { scenarios::read_scenario(core::Field::parse(scenario(schedules), "s.json")); },
          "s.json: /parallel: expected no key parallel, which only simulate and plan, alone or with --emit, "
          "take, got an object with 2 keys");
  refused([&] { read(""); }, "s.json: /schedules: expected a value, got nothing");
  refused(
      [&] { scenarios::run(read(schedules + R"(, "memory": {"optimizer": "sgd", "cap_bytes": 9})")); },
      "s.json: /memory/cap_bytes: expected no cap_bytes, with the key parallel, got one (schedule 'wfbp')");
  refused([&] { scenarios::run(read(schedules, R"({"data": 3})")); },
          "s.json: /workers: expected 3 workers, the product of tensor, pipeline and data, got 4 (schedule "
          "'wfbp')");
  refused([&] { scenarios::timelines(read(schedules), 4); },
          "s.json: /parallel: expected no key parallel where timelines are drawn, got an object with 2 keys");
}

}  // namespace
