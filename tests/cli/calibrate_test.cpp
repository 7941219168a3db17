// fusewise calibrate through the real program: a published table, files that simulate takes, and refusals.

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

const std::string kRows = "validate/measurements/commlib-table-3.csv";
const std::string kSetup = "validate/measurements/commlib.setup.json";

TEST_CASE("golden: a published table, some rows predicted from others") {
  const Outcome outcome = run_program({"calibrate", kRows, "--setup", kSetup, "--calibrate-on", "workers=1",
                                       "--calibrate-on", "schedule=2dtar-sgd"});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  const auto kept = support::source_dir() / "tests" / "golden" / "calibrate-commlib.txt";
  if (std::getenv("FUSEWISE_UPDATE_GOLDEN") != nullptr) core::write_file(kept, outcome.out);
  CHECK(outcome.out == core::read_file(kept));
}

TEST_CASE("calibrate: simulate takes the profile and the network that it writes, with an interval") {
  const support::TemporaryFolder folder;
  const std::string rows = folder.put("runs.csv",
                                      "model,network,schedule,workers,samples_per_s\n"
                                      "googlenet,10gbe,dense,1,163.4\ngooglenet,10gbe,dense,4,560\n"
                                      "googlenet,10gbe,wfbp,4,600\ngooglenet,10gbe,wfbp,8,1150\n");
  const std::string root = support::source_dir().string();
  const std::string setup = folder.put("setup.json", R"({"format": "fusewise.setup", "version": 1,
    "models": [{"name": "googlenet", "profile": ")" + root +
                                                         R"(/traces/googlenet-k80.profile.json"}],
    "networks": [{"name": "10gbe", "network": ")" + root +
                                                         R"(/traces/k80-10gbe.network.json"}]})");
  const Outcome outcome =
      run_program({"calibrate", rows, "--setup", setup, "--output-folder", folder / "out"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string scenario =
      folder.put("out/scenario.json",
                 R"({"format": "fusewise.scenario", "version": 1, "schedules": ["wfbp"], "workers": 8,
    "profile": "googlenet-on-10gbe.profile.json", "network": "10gbe.network.json"})");
  const Outcome simulated = run_program({"simulate", scenario, "--json"});
  CAPTURE(simulated.err);
  REQUIRE(simulated.exit_code == 0);
  const auto result = nlohmann::json::parse(simulated.out).at("results").at(0);
  CHECK(result.at("throughput_samples_per_s").get<double>() == doctest::Approx(1150).epsilon(0.05));
  CHECK(simulated.out.find("\"interval\"") != std::string::npos);
  const Outcome shown = run_program({"show", folder / "out/10gbe.network.json"});
  CHECK(shown.out.find("FITTED by fusewise calibrate to 4 rows of runs.csv") != std::string::npos);
}

TEST_CASE("calibrate: wrong usage and input") {
  const support::TemporaryFolder folder;
  const std::string csv = folder.put("m.csv", "model,network\n");
  CHECK(run_program({"calibrate", csv}).exit_code == 2);
  const Outcome bad = run_program({"calibrate", csv, "--setup", kSetup});
  CHECK(bad.exit_code == 2);
  CHECK(bad.out.empty());
  CHECK(bad.err.starts_with(csv + ":1: expected the columns"));
  const Outcome fit = run_program({"calibrate", kRows, "--setup", kSetup, "--fit", "fixed_startup"});
  CHECK(fit.exit_code == 2);
  CHECK(fit.err.find("did you mean 'fixed_startup_us'?") != std::string::npos);
}

}  // namespace
