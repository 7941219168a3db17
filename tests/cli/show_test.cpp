// fusewise show through the real program: what `plan` wrote is shown as `plan` printed it.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

const std::string kStages = "tests/data/schemas/scenario-parallel.json";
const std::string kSharded = "tests/data/schemas/scenario-sharded.json";

std::string output_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_program(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome.out;
}

TEST_CASE("show: the plans of stages and the fronts that plan writes are shown as it prints them") {
  const support::TemporaryFolder folder;
  const std::string stages = folder.put("stages.json", output_of({"plan", kStages, "--json"}));
  CHECK(output_of({"show", stages}) == output_of({"plan", kStages}));
  CHECK(output_of({"show", stages, "--json"}) == output_of({"plan", kStages, "--json"}));
  const std::vector<std::string> front = {"plan", kSharded, "--schedule", "fsdp2", "--memory-front"};
  std::vector<std::string> as_json = front;
  as_json.emplace_back("--json");
  const std::string written = folder.put("front.json", output_of(as_json));
  CHECK(output_of({"show", written}) == "fastest sharded plans by memory, 4 workers\n\n" + output_of(front));
}

TEST_CASE("show: a device and a schedule are shown by their rows, whatever the case of the letters") {
  const std::string devices = output_of({"show", "devices"});
  for (const std::string name : {"a100", "A100"}) {
    const std::string shown = output_of({"show", name});
    CHECK(shown.find("NVIDIA A100") != std::string::npos);
    CHECK(shown.find("NVIDIA H100") == std::string::npos);
  }
  CHECK(output_of({"show", "ddp"}).find("PyTorch DDP: 25 MiB buckets") != std::string::npos);
  const nlohmann::json row = nlohmann::json::parse(output_of({"show", "ddp", "--json"}));
  CHECK(row.at("format") == "fusewise.list");
  REQUIRE(row.at("schedules").size() == 1);
  CHECK(row.at("schedules")[0].at("name") == "ddp");
}

TEST_CASE("show: a plan that a trace gave has no predicted time") {
  const support::TemporaryFolder folder;
  const std::string plan =
      folder.put("job.plan.json", R"({"format": "fusewise.plan", "version": 1, "model": "m",
    "workers": 1, "pipeline": "wfbp", "collectives": {"all_reduce": "ring"}, "compression": "none",
    "optimality": "heuristic", "predicted": {"iteration_us": 0.0, "lower_bound_us": 0.0, "compared_with": []},
    "groups": [{"tensors": ["t"], "bytes": 20}]})");
  const std::string shown = output_of({"show", plan});
  CHECK(shown.starts_with("m on 1 worker, pipeline wfbp, ring all-reduce: 1 group\n"));
  CHECK(shown.find("ms") == std::string::npos);
  CHECK(shown.find("the plan holds no prediction") != std::string::npos);
}

TEST_CASE("show: live runs are shown with the greatest error of each time") {
  const support::TemporaryFolder folder;
  const std::string live = folder.put("live.json", R"({"format": "fusewise.live-validation", "version": 1,
    "where": "2 processes", "plans": [{"name": "ours", "iteration": {"quantity": "iteration", "predicted_us": 9500,
    "measured_us": 10000, "min_us": 9990, "max_us": 10030, "error": -0.05}, "quantities": [
    {"quantity": "forward", "worker": 0, "predicted_us": 2000, "measured_us": 2100, "min_us": 2000, "max_us": 2200, "error": -0.01},
    {"quantity": "forward", "worker": 1, "predicted_us": 2000, "measured_us": 1800, "min_us": 1700, "max_us": 1900, "error": 0.02}]}]})");
  CHECK(
      output_of({"show", live}) ==
      "ours\n"
      "                                   predicted ms  measured ms    95 % interval of median      error\n"
      "iteration                                 9.500       10.000        9.990 to     10.030    -5.00 %\n"
      "forward                                   2.000        1.800        1.700 to      1.900     2.00 %\n");
}

TEST_CASE("show: what is wrong in these files is refused in one line") {
  const support::TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& arguments, const char* patch,
                           const std::string& message) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(output_of(arguments));
    json.merge_patch(nlohmann::ordered_json::parse(patch));
    const std::string file = folder.put("wrong.json", json.dump());
    const Outcome outcome = run_program({"show", file});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == file + ": " + message + "\n");
  };
  const std::vector<std::string> front = {"plan", kSharded, "--schedule", "fsdp", "--memory-front", "--json"};
  refused(front, R"({"plans": []})", "/plans: expected an array of at least 1 item, got an array of 0 items");
  refused(front, R"({"plans": [{"peak_bytes": 1, "unit": 2}]})",
          "/plans/0/unit: expected a key among peak_bytes, iteration_us, lower_bound_us, units, groups, "
          "prefetch, backward_prefetch, reshard_after_forward, kept_groups, reshard_after_backward, "
          "scatters_in_flight, shard_workers, shard_level, pad_tensors, gather_early, keep_tied, got 'unit', "
          "did you "
          "mean 'units'?");
  refused({"plan", kStages, "--json"}, R"({"parts": [{"stage": 0, "process_group": "dens"}]})",
          "/parts/0/process_group: expected one of dense, expert, got \"dens\", did you mean 'dense'?");
}

}  // namespace
