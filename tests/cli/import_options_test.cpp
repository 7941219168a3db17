// fusewise import: --iteration-ms, what an iteration takes beyond its layers, and --model.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

/// One layer: backward 5 us and, as assumed, forward 2.5 us.
const std::string kLog = "[0, 10, 5, 100]\n[1, 2, 5, 0]\n";

TEST_CASE("import: --json prints what --output writes, of logs and of traces") {
  const support::TemporaryFolder folder;
  const std::string file = folder / "p.json";
  const std::string log = folder.put("tmp8comm.log", kLog);
  const std::string dlrm = "tests/data/ranks/dlrm";
  for (const std::vector<std::string>& logs :
       {std::vector{log, std::string("--batch"), std::string("4")}, {dlrm}}) {
    CAPTURE(logs.front());
    std::vector<std::string> arguments = {"import", "-o", file, "--json"};
    arguments.insert(arguments.end(), logs.begin(), logs.end());
    const Outcome outcome = run_program(arguments);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out == core::read_file(file));
    CHECK(nlohmann::json::parse(outcome.out).at("format") == "fusewise.profile");
  }
}

TEST_CASE("import: an iteration's remainder is kept, and simulated on one worker") {
  const support::TemporaryFolder folder;
  const std::string log = folder.put("tmp8comm.log", kLog);
  const std::string profile = folder / "p.json";
  const Outcome imported =
      run_program({"import", log, "--batch", "4", "--iteration-ms", "0.01", "-o", profile});
  CAPTURE(imported.err);
  CHECK(imported.exit_code == 0);
  CHECK(imported.out.find("other_us is what a measured iteration of 0.01 ms on one worker leaves") !=
        std::string::npos);
  const std::string scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json", "workers": 1,
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": ""},
                "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}}, "schedules": ["wfbp"]})");
  const auto result = nlohmann::json::parse(run_program({"simulate", scenario, "--json"}).out);
  CHECK(result.at("results").at(0).at("iteration_us").get<double>() == doctest::Approx(10));
}

TEST_CASE("import: an iteration shorter than its layers, and one of measured collectives, are refused") {
  const support::TemporaryFolder folder;
  const std::string log = folder.put("tmp8comm.log", kLog);
  const Outcome shorter = run_program({"import", log, "--batch", "4", "--iteration-ms", "0.005"});
  CHECK(shorter.exit_code == 2);
  CHECK(shorter.err ==
        "--iteration-ms: expected at least the 0.0075 ms of forward and backward, got 0.005\n");
  const Outcome network =
      run_program({"import", log, "--format", "b-caffe-all-reduce", "--workers", "8", "--iteration-ms", "1"});
  CHECK(network.exit_code == 2);
  CHECK(network.err == "--iteration-ms: expected logs that give a profile, got measured collectives\n");
}

TEST_CASE("import: --model takes names with dots and slashes, but no file that does not exist") {
  const support::TemporaryFolder folder;
  const std::string log = folder.put("tmp8comm.log", kLog);
  const std::string profile = folder / "p.json";
  REQUIRE(
      run_program({"import", log, "--batch", "4", "--model", "meta/Llama-3.1", "-o", profile}).exit_code ==
      0);
  CHECK(nlohmann::json::parse(core::read_file(profile)).at("model") == "meta/Llama-3.1");
  const Outcome missing =
      run_program({"import", log, "--batch", "4", "--model", (folder / "model.json").string()});
  CHECK(missing.exit_code == 2);
  CHECK(missing.err == (folder / "model.json").string() +
                           ": /: expected a file that can be read, got: No such file or directory\n");
}

}  // namespace
