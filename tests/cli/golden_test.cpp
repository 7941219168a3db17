// Every scenario and every help text through the real program, byte for byte against tests/golden.

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>

#include "core/files.hpp"
#include "planner/emit/emit.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;

/// FUSEWISE_UPDATE_GOLDEN accepts what is printed now (cmake --build ... --target update-golden).
void compare(const std::string& name, const std::string& text) {
  CAPTURE(name);
  const std::filesystem::path golden = support::source_dir() / "tests" / "golden" / name;
  if (std::getenv("FUSEWISE_UPDATE_GOLDEN") != nullptr) {
    core::write_file(golden, text);
    return;
  }
  REQUIRE(std::filesystem::exists(golden));
  CHECK(core::read_file(golden) == text);
}

std::vector<std::string> files_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(support::source_dir() / folder))
    if (entry.path().extension() == extension) out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// The first words of the lines below "Subcommands:".
std::vector<std::string> commands_in(const std::string& help) {
  std::istringstream lines(help.substr(help.find("Subcommands:\n") + 13));
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    std::istringstream words(line);
    if (std::string word; words >> word) out.push_back(word);
  }
  return out;
}

TEST_CASE("golden: the ranks of a job, the buckets of an execution trace, and comparisons") {
  const std::string job = "tests/data/ranks/dlrm";
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"ranks", {"import", job}},
      {"buckets", {"import", "tests/data/ranks/resnet-2gpu-et.json.gz"}},
      {"compare-traces", {"compare", job, job + "/worker0.pt.trace.json.gz"}},
      {"compare-trace", {"compare", "tests/data/kineto/vgg13-h100-iter41.json"}},
      {"compare-scenario", {"compare", job, "--plan", "scenarios/googlenet-k80.json", "--schedule", "ddp"}},
      {"compare-plan",
       {"compare", job, "--plan", "tests/golden/googlenet-k80.plan.json", "--profile",
        "traces/googlenet-k80.profile.json", "--network", "traces/k80-10gbe.network.json"}}};
  for (const auto& [name, arguments] : runs)
    for (const std::string format : {"txt", "json"}) {
      std::vector<std::string> all = arguments;
      if (format == "json") all.emplace_back("--json");
      const Outcome outcome = support::run_program(all);
      CAPTURE(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      compare(name + '.' + format, outcome.out);
    }
}

TEST_CASE("golden: every scenario's table, JSON, CSV, warnings and plan") {
  for (const std::string& name : files_in("scenarios", ".json")) {
    const std::string file = "scenarios/" + name + ".json";
    const Outcome table = support::run_program({"simulate", file});
    REQUIRE(table.exit_code == 0);
    compare(name + ".txt", table.out);
    compare(name + ".warnings", table.err);
    for (const std::string format : {"json", "csv"}) {
      const Outcome outcome = support::run_program({"simulate", file, "--" + format});
      REQUIRE(outcome.exit_code == 0);
      compare(name + '.' + format, outcome.out);
    }
    const Outcome plan = support::run_program({"plan", file, "--workers", "8", "--json"});
    REQUIRE(plan.exit_code == 0);
    compare(name + ".plan.json", plan.out);
  }
}

TEST_CASE(
    "golden: a plan in the words of every framework, why it is as it is, and whether compression pays") {
  const std::vector<std::string> plan = {"plan", "scenarios/resnet50-v100.json", "--workers", "64"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), plan.begin(), plan.end());
    const Outcome outcome = support::run_program(arguments);
    REQUIRE(outcome.exit_code == 0);
    return outcome.out;
  };
  for (const planner::Emitter& emitter : planner::emitters()) {
    const std::string target(emitter.name);
    compare("emit-" + target + ".txt", run({"--emit", target}));
    compare("emit-" + target + ".json", run({"--emit", target, "--json"}));
  }
  compare("explain.txt", run({"--explain"}));
  compare("explain.json", run({"--explain", "--json"}));
  compare("consider.txt", run({"--consider-compression", "--extra-iterations", "dgc=1.05"}));
  compare("consider.json", run({"--consider-compression", "--extra-iterations", "dgc=1.05", "--json"}));
  compare("explain-dear.txt", run({"--explain", "--schedule", "fusewise-dear"}));
}

TEST_CASE("golden: every model's counts, and one model's layers and shapes") {
  std::string counts;
  for (const std::string& name : files_in("models", ".json")) {
    const Outcome outcome = support::run_program({"show", "models/" + name + ".json"});
    REQUIRE(outcome.exit_code == 0);
    counts += outcome.out.substr(0, outcome.out.find('\n') + 1);
    if (name == "resnet50") compare("model-resnet50.txt", outcome.out);
  }
  compare("models.txt", counts);
}

TEST_CASE("golden: help of the program and of every command") {
  const std::string help = support::run_program({"--help"}).out;
  compare("help.txt", help);
  const std::vector<std::string> commands = commands_in(help);
  REQUIRE(commands.size() > 10);
  for (const std::string& command : commands) {
    const Outcome outcome = support::run_program({command, "--help"});
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    compare("help-" + command + ".txt", outcome.out);
  }
}

TEST_CASE("golden: a timeline") {
  const support::TemporaryFolder folder;
  const std::string timeline = (folder.path() / "timeline.json").string();
  const std::string scenario = folder.put("small.json", R"({
    "format": "fusewise.scenario", "version": 1, "name": "small <&> \"quoted\"", "workers": [2, 16],
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
                "device": "none", "origin": {"kind": "estimated", "source": "by hand"},
                "layers": [{"name": "near", "kind": "conv2d", "forward_us": 3, "backward_us": 4,
                            "tensors": [{"name": "near.weight", "elements": 4}]},
                           {"name": "far", "kind": "linear", "forward_us": 1, "backward_us": 2,
                            "tensors": [{"name": "far.weight", "elements": 2}, {"name": "far.bias", "elements": 1}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": ""},
                "link": {"alpha_us": 1, "beta_us_per_byte": 0.5}},
    "schedules": ["wfbp", "dear-fb", {"pipeline": "wfbp", "fusion": {"kind": "threshold", "cycle_us": 4}}]})");
  REQUIRE(support::run_program({"simulate", scenario, "--timeline", timeline, "--timeline-workers", "2"})
              .exit_code == 0);
  compare("small.timeline.json", core::read_file(timeline));
}

}  // namespace
