// Bundled networks through the real program: the list, scenarios that name one, nodes joined by a link, and
// the bound that no schedule exceeds.

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/bundled.hpp"
#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace cli {
namespace {

using nlohmann::json;
using support::run_program;

TEST_CASE("networks: the list names every bundled network, and each can be shown") {
  const std::string list = run_program({"show", "networks"}).out;
  for (const core::BundledFile& network : core::bundled_networks()) {
    CHECK(list.find(network.name) != std::string::npos);
    CHECK(run_program({"show", std::string(network.name)})
              .out.find("measured all_gather on 2 workers, algorithm not stated: ") != std::string::npos);
  }
}

/// Simulates a scenario in a folder of its own, so that a name cannot be a path by chance.
support::Outcome simulate(const std::string& network, const std::string& workers,
                          const std::string& more = "") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "s.json").string();
  core::write_file(
      file, fmt::format(R"({{"format": "fusewise.scenario", "version": 1, "profile": "{}", "network": "{}",
                             "workers": {}, "schedules": ["wfbp", "ddp", "fusewise", "fusewise-dear"]{}}})",
                        (support::source_dir() / "traces/resnet50-h100.profile.json").string(), network,
                        workers, more));
  return run_program({"simulate", file, "--json"});
}

TEST_CASE("networks: a scenario names one from any folder, and a misspelt name is told") {
  const support::Outcome outcome = simulate("h100-nvlink-8", "[2, 8]");
  REQUIRE(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out)["warnings"].empty());
  const support::Outcome wrong = simulate("h100-nvlink8", "8");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err.find("did you mean 'h100-nvlink-8'?") != std::string::npos);
}

TEST_CASE("networks: nodes joined by a link have a cost with a range, and have to be full") {
  const std::string between = R"(, "between": {"bandwidth_gbps": 400, "startup_us": 5})";
  const support::Outcome outcome = simulate("h100-nvlink-8", "[8, 16, 64]", between);
  REQUIRE(outcome.exit_code == 0);
  const json results = json::parse(outcome.out);
  for (const json& entry : results["results"]) CHECK(entry.contains("interval") == (entry["workers"] != 8));
  CHECK_FALSE(results["warnings"].empty());
  CHECK(simulate("h100-nvlink-8", "12", between).err.find("a multiple of the 8 workers in a node") !=
        std::string::npos);
  CHECK(simulate("h100-nvlink-8", "16", R"(, "between": {"bandwidth_gbps": 0})").exit_code == 2);
  const std::string of_four = R"(, "between": {"bandwidth_gbps": 400, "workers_per_node": 4})";
  const support::Outcome fours = simulate("h100-nvlink-8", "[8, 12]", of_four);
  REQUIRE(fours.exit_code == 0);
  const json of_fours = json::parse(fours.out);  // 8 workers are two nodes, although 8 of one were measured
  for (const json& entry : of_fours["results"]) CHECK(entry.contains("interval"));
  CHECK(simulate("h100-nvlink-8", "12", R"(, "between": {"bandwidth_gbps": 400, "workers_per_node": 3})")
            .err.find(
                "/between/workers_per_node: expected a number of workers that is measured in the network: "
                "2, 4, 8, got 3") != std::string::npos);
}

TEST_CASE("networks: more workers than a machine holds are simulated on one with a warning") {
  const auto warns = [](const std::string& workers, const std::string& more) {
    return simulate("h100-nvlink-8", workers, more).out.find("is one machine of 8 workers") !=
           std::string::npos;
  };
  CHECK(warns("[8, 16]", ""));
  CHECK_FALSE(warns("[2, 8]", ""));
  CHECK_FALSE(warns("[8, 16]", R"(, "between": {"bandwidth_gbps": 400})"));
}

TEST_CASE("networks: what can be simulated on more workers than were measured can be explained and changed") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put(
      "s.json", fmt::format(R"({{"format": "fusewise.scenario", "version": 1, "profile": "{}", "workers": 64,
                                 "network": "h100-nvlink-8", "schedules": ["ddp", "fusewise-dear"]}})",
                            (support::source_dir() / "traces/resnet50-h100.profile.json").string()));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"plan", file, "--explain"},
                                                    {"simulate", file, "--what-if", "startup=1000"},
                                                    {"simulate", file, "--what-if", "bandwidth=100"}}) {
    const support::Outcome outcome = run_program(arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("networks: no schedule's speed-up exceeds the S_max that is printed beside it") {
  for (const char* scenario : {"scenarios/resnet50-v100.json", "scenarios/resnet50-v100-nodes.json",
                               "scenarios/googlenet-k80-measured.json"})
    for (const char* workers : {"4", "8", "16"})
      for (const char* schedule : {"fusewise", "fusewise-dear", "ddp", "s-sgd"}) {
        const support::Outcome outcome = run_program(
            {"plan", scenario, "--workers", workers, "--schedule", schedule, "--explain", "--json"});
        if (outcome.exit_code != 0) continue;  // such as curves on 2, 4 and 8 workers alone
        CAPTURE(scenario);
        CAPTURE(workers);
        CAPTURE(schedule);
        const json explanation = json::parse(outcome.out);
        REQUIRE(explanation.contains("s_max"));
        CHECK(explanation["speedup"].get<double>() <= explanation["s_max"].get<double>() * (1 + 1e-9));
      }
}

}  // namespace
}  // namespace cli
