// The commands together, as a user runs them one after another.

#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

double iteration_us(const json& results, const std::string& schedule) {
  for (const json& entry : results.at("results"))
    if (entry.at("schedule") == schedule) return entry.at("iteration_us");
  FAIL("no such schedule: " << schedule);
  return 0;
}

std::string scenario_with(const std::string& workers, const std::string& schedules) {
  const std::string root = support::source_dir().string();
  return R"({"format": "fusewise.scenario", "version": 1, "name": "googlenet", "profile": ")" + root +
         R"(/traces/googlenet-k80.profile.json", "network": ")" + root +
         R"(/traces/k80-10gbe.network.json", "workers": )" + workers + R"(, "schedules": )" + schedules + "}";
}

TEST_CASE("simulate: GoogleNet on 64 workers takes what the authors' own simulator says") {
  const support::TemporaryFolder folder;
  const std::string file =
      folder.put("s.json", scenario_with("64", R"(["wfbp", "sync-easgd", "mg-wfbp", "fusewise"])"));
  const json results = json::parse(run_program({"simulate", file, "--json"}).out);
  const auto ms = [&](const char* schedule) {
    return std::round(iteration_us(results, schedule) / 100) / 10;
  };
  CHECK(ms("wfbp") == 704.4);
  CHECK(ms("sync-easgd") == 550.1);
  CHECK(ms("mg-wfbp") == 407.8);
  CHECK(ms("fusewise") == 368.0);
  CHECK(results.at("results").at(2).at("groups") == 3);
  CHECK(results.at("results").at(3).at("groups") == 5);
}

TEST_CASE("plan: large jobs are explained, and what costs time here does not pay on every network") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "s.json").string();
  REQUIRE(run_program({"init", "--model", "bert-large", "--device", "a100", "--network", "100gbit",
                       "--workers", "2048", "-o", file})
              .exit_code == 0);
  const Outcome explained = run_program({"plan", file, "--explain", "--json"});
  CHECK(explained.err == "");
  REQUIRE(explained.exit_code == 0);
  const json all = json::parse(explained.out);
  const double without = all.at("best_uncompressed_us");
  for (const json& each : all.at("compressors")) {
    CAPTURE(each.dump());
    const double pays_from = each.value("break_even_slowdown_per_byte", 1e9);
    CHECK((each.at("iteration_us") < without) == (pays_from <= 1));
  }
}

TEST_CASE("plan: simulating the plan gives the time that the plan predicts, for every schedule") {
  const support::TemporaryFolder folder;
  const std::string scenario = folder.put("s.json", scenario_with("16", R"(["wfbp"])"));
  for (const std::string schedule : {"fusewise", "horovod", "ddp", "dear-fb", "zero", "s-sgd"}) {
    CAPTURE(schedule);
    const std::string plan = (folder.path() / "p.json").string();
    REQUIRE(run_program({"plan", scenario, "--schedule", schedule, "-o", plan}).exit_code == 0);
    const json written = json::parse(core::read_file(plan));
    CHECK(run_program({"plan", scenario, "--schedule", schedule, "-o", plan, "--json"}).out ==
          core::read_file(plan));
    const std::string replay = folder.put(
        "r.json", scenario_with("16", R"([{"pipeline": ")" + written.at("pipeline").get<std::string>() +
                                          R"(", "fusion": {"kind": "plan", "file": "p.json"}}])"));
    const Outcome outcome = run_program({"simulate", replay, "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(json::parse(outcome.out).at("results").at(0).at("iteration_us") ==
          written.at("predicted").at("iteration_us"));
  }
}

TEST_CASE("estimate: what it writes can be simulated") {
  const support::TemporaryFolder folder;
  const std::string profile = (folder.path() / "resnet18.json").string();
  REQUIRE(run_program({"estimate", "models/resnet18.json", "--device", "v100", "--iteration-ms", "100", "-o",
                       profile})
              .exit_code == 0);
  const std::string scenario = folder.put(
      "s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "resnet18.json", "network": ")" +
                    support::source_dir().string() +
                    R"(/traces/v100-10gbe.network.json", "workers": 1, "schedules": ["wfbp"]})");
  const json results = json::parse(run_program({"simulate", scenario, "--json"}).out);
  CHECK(iteration_us(results, "wfbp") == doctest::Approx(100e3).epsilon(1e-6));
}

TEST_CASE("schema: a format's name is taken with and without fusewise. in front") {
  const Outcome outcome = run_program({"schema", "profile"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out).at("properties").at("format").at("const") == "fusewise.profile");
  CHECK(run_program({"schema", "fusewise.profile"}).out == outcome.out);
}

TEST_CASE("simulate: the same input gives the same bytes") {
  const Outcome once = run_program({"simulate", "scenarios/resnet50-v100.json", "--json"});
  REQUIRE(once.exit_code == 0);
  CHECK(run_program({"simulate", "scenarios/resnet50-v100.json", "--json"}).out == once.out);
}

}  // namespace
