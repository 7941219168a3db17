// Large inputs that are within all limits take seconds: the time grows with their size, and not with its
// square.

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/random_scenario.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::ordered_json;
using support::TemporaryFolder;

/// 10 s of processor time, and 2 GiB of memory.
void limit_work() {
  constexpr rlim_t kBytes = rlim_t{2} << 30U;
  const rlimit memory = {.rlim_cur = kBytes, .rlim_max = kBytes};
  const rlimit time = {.rlim_cur = 10, .rlim_max = 10};
  (void)::setrlimit(RLIMIT_AS, &memory);
  (void)::setrlimit(RLIMIT_CPU, &time);
}

void check_runs(const std::vector<std::string>& words) {
  const support::Outcome outcome = support::run_program(words, limit_work);
  CAPTURE(words);
  CAPTURE(outcome.err.substr(0, 1000));
  CHECK(outcome.exit_code == 0);
}

std::string put(const TemporaryFolder& folder, const std::string& name, const ordered_json& value) {
  return folder.put(name, value.dump());
}

ordered_json profile_of(std::size_t layers) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = "l" + std::to_string(i);
    out.push_back({{"name", name},
                   {"kind", "k"},
                   {"forward_us", 10},
                   {"backward_us", 20},
                   {"tensors", {{{"name", name + ".t"}, {"elements", 1000 + i % 977}}}}});
  }
  return support::profile_json(std::move(out));
}

ordered_json network_with(ordered_json costs) {
  ordered_json out = support::network_json();
  out.update(costs);
  return out;
}

TEST_CASE("large inputs: sharded jobs of 50,000 groups" * support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  ordered_json scenario = support::scenario_json(
      profile_of(50'000),
      network_with({{"link", {{"alpha_us", 10}, {"beta_us_per_byte", 0.001}, {"gamma_us_per_byte", 0}}}}));
  scenario["workers"] = 16;
  for (const ordered_json& schedule :
       std::vector<ordered_json>{"fsdp2", {{"name", "hsdp"}, {"shard_workers", 4}}, "zero3"}) {
    scenario["schedules"] = ordered_json::array({schedule});
    check_runs({"simulate", put(folder, "s.json", scenario)});
  }
}

TEST_CASE("large inputs: stages with 25,000 groups each" * support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  ordered_json profile = profile_of(50'000);
  for (ordered_json& layer : profile["layers"]) layer["activation_bytes"] = 1000;
  ordered_json scenario = support::scenario_json(
      std::move(profile),
      network_with({{"link", {{"alpha_us", 10}, {"beta_us_per_byte", 0.001}, {"gamma_us_per_byte", 0}}}}));
  scenario.update(
      {{"workers", 16},
       {"memory", {{"optimizer", "adam"}}},
       {"parallel",
        {{"pipeline", 2},
         {"stages", {{"schedule", "1f1b"}, {"micro_batches", 2}, {"layers", {25'000, 25'000}}}}}}});
  for (const char* schedule : {"fsdp2", "zero", "wfbp"}) {
    scenario["schedules"] = ordered_json::array({schedule});
    check_runs({"simulate", put(folder, "s.json", scenario), "--timeline", folder.path() / "t.json"});
  }
}

TEST_CASE("large inputs: a network of 40 curves with 10,000 sizes each" *
          support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  ordered_json measured = ordered_json::array();
  for (int workers = 2; workers < 42; ++workers) {
    ordered_json curve = ordered_json::array();
    for (int i = 1; i <= 10'000; ++i) curve.push_back({8 * i, 10 * workers + 0.001 * workers * i});
    measured.push_back({{"collective", "all_reduce"}, {"workers", workers}, {"curve", std::move(curve)}});
  }
  ordered_json scenario =
      support::scenario_json(profile_of(10), network_with({{"measured", std::move(measured)}}));
  scenario.update({{"workers", 100}, {"schedules", {"wfbp", "dear-nl"}}});
  check_runs({"simulate", put(folder, "s.json", scenario)});
}

TEST_CASE("large inputs: a prediction from 5,000 numbers of workers" *
          support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  std::string table = "workers,bytes,us\n";
  for (int workers = 2; workers < 5'002; ++workers)
    for (const int bytes : {1024, 1'048'576})
      table += std::to_string(workers) + "," + std::to_string(bytes) + "," +
               std::to_string((workers - 1) * 10 + bytes / 1000) + "\n";
  check_runs({"fit", folder.put("t.csv", table), "--predict-workers", "20001"});
}

TEST_CASE("large inputs: a calibration from 20,000 runs" * support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  const std::filesystem::path published = support::source_dir() / "validate" / "measurements";
  std::istringstream rows(core::read_file((published / "ddl-10gbe.csv").string()));
  std::string table;
  std::getline(rows, table);
  table += '\n';
  std::vector<std::string> runs;
  for (std::string row; std::getline(rows, row);)
    if (!row.empty()) runs.push_back(row);
  for (std::size_t i = 0; i < 20'000; ++i) {  // each run again and again, up to 1 % faster
    const std::string& run = runs[i % runs.size()];
    const std::size_t last = run.rfind(',') + 1;
    const double throughput = std::stod(run.substr(last)) * (1 + 0.01 * static_cast<double>(i) / 20'000);
    table += run.substr(0, last) + std::to_string(throughput) + '\n';
  }
  check_runs({"calibrate", folder.put("runs.csv", table), "--setup",
              (published / "ddl-10gbe.setup.json").string(), "--fit", "startup_per_hop"});
}

TEST_CASE("large inputs: a model of 200,000 inputs" * support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  ordered_json inputs = ordered_json::array();
  for (int i = 0; i < 200'000; ++i) inputs.push_back({{"name", "i" + std::to_string(i)}, {"shape", {4}}});
  const ordered_json model = {
      {"format", "fusewise.model"},
      {"version", 1},
      {"name", "m"},
      {"about", ""},
      {"batch_size", 1},
      {"dtype", "float32"},
      {"input", std::move(inputs)},
      {"layers", {{{"name", "fc"}, {"kind", "linear"}, {"inputs", {"i0"}}, {"out_features", 4}}}}};
  const support::Outcome outcome = support::run_program({"show", put(folder, "m.json", model)}, limit_work);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.ends_with(": /layers/0: expected at most 20000 layers in all, got more\n"));
}

TEST_CASE("large inputs: a paper of 40,000 scenarios" * support::needs(support::no_sanitizer)) {
  const TemporaryFolder folder;
  ordered_json scenarios = ordered_json::array({{{"name", "s0"}, {"scenario", ordered_json::object()}}});
  for (int i = 1; i < 40'000; ++i)
    scenarios.push_back({{"name", "s" + std::to_string(i)},
                         {"like", "s" + std::to_string(i - 1)},
                         {"patch", ordered_json::object()}});
  const ordered_json paper = {{"format", "fusewise.paper"},
                              {"version", 1},
                              {"name", "p"},
                              {"title", "t"},
                              {"source", "s"},
                              {"scenarios", std::move(scenarios)},
                              {"figures",
                               {{{"name", "f"},
                                 {"where", "Table 1"},
                                 {"what", "w"},
                                 {"read", "table"},
                                 {"published", 1},
                                 {"judge", "near"},
                                 {"within", 1},
                                 {"quantity",
                                  {{"kind", "s_max"},
                                   {"compute_ms", 100},
                                   {"forward_share", 0.3},
                                   {"parameters", 1e6},
                                   {"gbps", 10},
                                   {"workers", 4}}}}}}};
  const support::Outcome outcome =
      support::run_program({"validate", put(folder, "p.json", paper)}, limit_work);
  CAPTURE(outcome.err.substr(0, 1000));
  CHECK(outcome.exit_code != -1);
}

}  // namespace
