// Live runs as processes: records are returned, calibration measures what a plan needs, and a killed worker
// is named with its phase.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/validate/live/live.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/execute.hpp"
#include "validate/live/layers.hpp"

namespace {

using live_tests::spec_for;
using support::Outcome;
using support::run_program;

TEST_CASE("live: workers as processes bring back what they have recorded") {
  live::WorkerGroup worker_group({.workers = 3, .deadline_s = 20});
  CHECK(worker_group.where() == "3 processes, loopback");
  const live::RunSpec spec = spec_for(R"({"pipeline": "dear", "fusion": {"kind": "groups", "count": 2}})", 3);
  const live::Calibration calibration =
      live::calibrate(worker_group, {spec}, {.repetitions = 2, .warm_up = 1, .sizes = 3});
  CHECK(calibration.where == worker_group.where());
  CHECK(calibration.network.link);
  CHECK(calibration.network.measured.size() == 2);
  const live::Prediction prediction = live::predict(spec, calibration);
  const live::Record record = live::execute(worker_group, spec, calibration, prediction);
  REQUIRE(record.workers.size() == 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(record.workers[rank].rank == rank);
    CHECK(record.workers[rank].pid > 0);
    CHECK(record.workers[rank].iterations.size() == spec.iterations);
    CHECK(record.workers[rank].loop_us.size() == (rank == 0 ? spec.iterations : 0));
    for (const live::Iteration& iteration : record.workers[rank].iterations) {
      CHECK(iteration.length_us > 0);
      CHECK(iteration.pieces.size() == prediction.iterations[rank].pieces.size());
    }
  }
}

TEST_CASE("live: who is killed is named with its phase, and all end") {
  live::WorkerGroup worker_group({.workers = 3, .deadline_s = 20});
  live::RunSpec spec = spec_for(R"("wfbp")", 3);
  spec.iterations = 200;
  const live::Calibration calibration = live_tests::made_up(spec);
  const live::Prediction prediction = live::predict(spec, calibration);
  live_tests::Killer killer;
  std::string said;
  try {
    live::execute(worker_group, spec, calibration, prediction, killer.hooks());
  } catch (const core::EnvironmentError& error) {
    said = error.what();
  }
  CAPTURE(said);
  CHECK(said.rfind(killer.said(), 0) == 0);
  CHECK(said.find("; worker ") != std::string::npos);
  CHECK(said.find("said: iteration ") != std::string::npos);
  CHECK(said.find('\n') == std::string::npos);
  for (const pid_t pid : killer.pids) CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("live: who is killed while it calibrates is named with that") {
  live::WorkerGroup worker_group({.workers = 2, .deadline_s = 20});
  std::vector<pid_t> pids;
  const live::WorkerGroupHooks hooks = {
      .on_started = [&](const std::vector<pid_t>& started) { pids = started; },
      .on_phase =
          [&](std::uint32_t rank, const std::string& phase) {
            if (rank == 1 && phase == "calibration of all-reduce ring") ::kill(pids[1], SIGKILL);
          }};
  std::string said;
  try {
    live::calibrate(worker_group, {spec_for(R"("wfbp")", 2)}, {.repetitions = 5000}, hooks);
  } catch (const core::EnvironmentError& error) {
    said = error.what();
  }
  CAPTURE(said);
  CHECK(said.find("was killed by signal 9 (Killed) in calibration of ") != std::string::npos);
  CHECK(said.find("said: calibration of ") != std::string::npos);
}

TEST_CASE("live: real layers run and are measured under the conditions of the run") {
  live::WorkerGroup worker_group({.workers = 2, .deadline_s = 20});
  live::RunSpec spec = spec_for(R"({"pipeline": "wfbp", "fusion": "all"})", 2);
  const auto model = core::read_model(core::Field::parse(
      R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "", "batch_size": 2,
          "dtype": "float32", "input": [{"name": "x", "shape": [3, 8, 8]}],
          "layers": [{"name": "conv", "kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
                     {"name": "flat", "kind": "flatten"}, {"name": "fc", "kind": "linear", "out_features": 10},
                     {"name": "loss", "kind": "cross_entropy"}]})",
      "model"));
  spec.layers = live::RealLayers{.model = model, .batch_size = 2};
  spec.profile = live::profile_of(*spec.layers);
  const live::Calibration calibration = live::calibrate(
      worker_group, {spec}, {.repetitions = 2, .warm_up = 1, .sizes = 2, .layer_repetitions = 3});
  CHECK(calibration.profile.layers.size() == spec.profile.layers.size());
  CHECK(core::forward_us(calibration.profile) > 0);
  const live::Record record =
      live::execute(worker_group, spec, calibration, live::predict(spec, calibration));
  CHECK(record.workers[1].iterations[0].forward_us() > 0);

  spec.layers->computing = 1;  // so the other rank waits for the specified layer times
  live::Calibration slow = live::calibrate(
      worker_group, {spec}, {.repetitions = 2, .warm_up = 1, .sizes = 2, .layer_repetitions = 3});
  CHECK(core::forward_us(slow.profile) > 0);
  for (core::ProfileLayer& layer : slow.profile.layers) layer.forward_us = 30'000;
  const live::Record waited = live::execute(worker_group, spec, slow, live::predict(spec, slow));
  for (const live::Iteration& iteration : waited.workers[1].iterations)
    CHECK(iteration.forward_us() > 29'000.0 * static_cast<double>(slow.profile.layers.size()));
}

std::string scenario(const support::TemporaryFolder& folder, const std::string& workers = "2") {
  return live_tests::scenario_file(folder, R"(["wfbp", "sync-easgd"])", workers);
}

TEST_CASE("validate: a scenario is predicted, run and compared") {
  const support::TemporaryFolder folder;
  const std::string report = folder / "report.json";
  const std::string trace = folder / "trace.json";
  const Outcome outcome = run_program({"validate", scenario(folder), "--iterations", "3", "--warm-up", "1",
                                       "--tolerance", "1000", "-o", report, "--timeline", trace});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.rfind("2 processes, loopback\n\nwfbp\n", 0) == 0);
  const auto written = nlohmann::json::parse(core::read_file(report));
  CHECK(written.at("plans").size() == 2);
  CHECK(written.at("plans").at(0).at("iteration").at("measured_us") > 0);
  const auto prediction_file = nlohmann::json::parse(core::read_file(report + ".prediction"));
  const auto& predicted = prediction_file.at("groups").at(0).at("plans");
  CHECK(predicted.size() == 2);
  CHECK(predicted.at(0).at("iteration_us") == written.at("plans").at(0).at("iteration").at("predicted_us"));
  CHECK(core::read_file(trace).find("wfbp: worker 1, measured") != std::string::npos);
  const Outcome strict = run_program({"validate", scenario(folder), "--schedule", "wfbp", "--iterations", "1",
                                      "--warm-up", "0", "--tolerance", "0"});
  CHECK(strict.exit_code == 3);
  CHECK(strict.err.rfind("wfbp: the prediction is off by ", 0) == 0);
  CHECK(strict.out.find("iteration ") != std::string::npos);
}

TEST_CASE("validate: a plan is run with its groups") {
  const support::TemporaryFolder folder;
  const std::string plan = folder / "p.plan.json";
  REQUIRE(run_program({"plan", scenario(folder), "--schedule", "fusewise", "-o", plan}).exit_code == 0);
  const std::string profile = folder.put("p.json", core::profile_text(live_tests::small_profile()));
  const Outcome outcome = run_program({"validate", plan, "--profile", profile, "--iterations", "1",
                                       "--warm-up", "0", "--tolerance", "1000", "--json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(nlohmann::json::parse(outcome.out)
            .at("plans")
            .at(0)
            .at("name")
            .get<std::string>()
            .rfind("small (", 0) == 0);
}

TEST_CASE("validate: another model's plan is refused before there are workers") {
  const support::TemporaryFolder folder;
  const std::string plan = folder / "p.plan.json";
  REQUIRE(run_program({"plan", scenario(folder), "--schedule", "fusewise", "-o", plan}).exit_code == 0);
  core::Profile other = live_tests::small_profile();
  for (core::ProfileLayer& layer : other.layers)
    for (core::ProfileTensor& tensor : layer.tensors) tensor.name += "'";
  const std::string profile = folder.put("p.json", core::profile_text(other));
  // Workers would use this netlab, which does not exist.
  const Outcome outcome = run_program({"validate", plan, "--profile", profile, "--netlab", "none"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.rfind(plan + ": /groups/0/tensors/0: expected \"", 0) == 0);
}

/// The environment that each launcher gives its processes, with the names of variables that differ by
/// process.
struct Starter {
  const char* rank;
  std::map<std::string, std::string> all;
  bool has_one_address;  ///< FUSEWISE_MASTER, else MASTER_ADDR and MASTER_PORT
};

std::vector<Starter> starters(const std::string& size) {
  return {{"FUSEWISE_RANK", {{"FUSEWISE_WORLD_SIZE", size}}, true},
          {"OMPI_COMM_WORLD_RANK",
           {{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_LOCAL_SIZE", size}, {"PMIX_NAMESPACE", "j"}},
           false},
          {"RANK", {{"WORLD_SIZE", size}, {"TORCHELASTIC_RUN_ID", "r"}}, false},
          {"SLURM_PROCID",
           {{"SLURM_STEP_NUM_TASKS", size}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}},
           false}};
}

/// Runs as process 0 of two started by the launcher; the other must succeed, too, and print nothing.
Outcome run_as_two(const Starter& starter, const std::vector<std::string>& words) {
  // Uses a port that was just free; rank 1 retries until rank 0 listens.
  const transport::Address master =
      transport::local_address(transport::listen_on({.host = "127.0.0.1", .port = 0}));
  std::map<std::string, std::string> all = starter.all;
  all["FUSEWISE_SECRET"] = "a secret of this test";
  if (starter.has_one_address)
    all["FUSEWISE_MASTER"] = transport::text(master);
  else
    all.insert({{"MASTER_ADDR", master.host}, {"MASTER_PORT", std::to_string(master.port)}});
  const support::Environment variables(all);
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    ::setenv(starter.rank, "1", 1);
    const Outcome outcome = run_program(words);
    ::_exit(outcome.out.empty() ? outcome.exit_code : 99);  // only the first process prints
  }
  const support::Environment rank(std::map<std::string, std::string>{{starter.rank, "0"}});
  Outcome outcome = run_program(words);
  int status = 0;
  ::waitpid(other, &status, 0);
  CHECK(WEXITSTATUS(status) == outcome.exit_code);
  return outcome;
}

TEST_CASE("validate: as one of as many processes as mpirun, srun, torchrun or a person have started") {
  const support::TemporaryFolder folder;
  const std::string file = scenario(folder, "[4, 8]");
  for (const Starter& starter : starters("2")) {
    CAPTURE(starter.rank);
    const Outcome outcome = run_as_two(starter, {"validate", file, "--schedule", "wfbp", "--iterations", "2",
                                                 "--warm-up", "0", "--tolerance", "1000"});
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.rfind("2 processes, started from outside\n\nwfbp\n", 0) == 0);
  }
}

TEST_CASE("validate: --workers has to be as many as were started, and a plan takes as many") {
  const support::TemporaryFolder folder;
  const std::string file = scenario(folder);
  const Starter starter = starters("2")[1];
  const Outcome wrong = run_as_two(starter, {"validate", file, "--workers", "3"});
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err == "--workers: expected 2, the number of processes, got '3'\n");
  const Outcome delayed = run_as_two(starter, {"validate", file, "--rate", "1gbit", "--delay", "1ms"});
  CHECK(delayed.exit_code == 2);
  CHECK(delayed.err ==
        "--delay, --between-rate, --netlab: expected none of them for processes started from outside, got "
        "one\n");
  const std::string plan = folder / "p.plan.json";
  REQUIRE(run_program({"plan", scenario(folder, "4"), "--schedule", "fusewise", "-o", plan}).exit_code == 0);
  const std::string profile = folder.put("p.json", core::profile_text(live_tests::small_profile()));
  const Outcome outcome = run_as_two(starter, {"validate", plan, "--profile", profile, "--iterations", "1",
                                               "--warm-up", "0", "--tolerance", "1000", "--json"});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(nlohmann::json::parse(outcome.out).at("where") == "2 processes, started from outside");
}

TEST_CASE("validate: wrong usage of live runs is one line, exit 2") {
  const support::TemporaryFolder folder;
  struct Example {
    std::vector<std::string> more;
    const char* message;
  };
  const Example examples[] = {
      {{"--backend", "mpi"}, "--backend: expected one of tcp, nccl, got 'mpi' (try --help)\n"},
      {{"--workers", "1"}, "--workers: expected 2 to 64, got '1'\n"},
      {{"--schedule", "ddp"}, "--schedule: expected one of wfbp, sync-easgd, got 'ddp'\n"},
      {{"--rate", "fast"},
       "--rate: expected a rate in kbit, mbit, gbit or tbit (a second), such as 1gbit, got 'fast'\n"},
      {{"--paced"}, "--paced: expected --rate with it, got none\n"},
      {{"--between-rate", "fast", "--rate", "1gbit"},
       "--between-rate: expected a rate in kbit, mbit, gbit or tbit (a second), such as 1gbit, got 'fast'\n"},
      {{"--between-rate", "1gbit"}, "--between-rate: expected --rate with it, got none\n"},
      {{"--between-rate", "1gbit", "--rate", "2gbit", "--paced"},
       "--between-rate: expected no --paced with it, as it needs namespaces, got one\n"},
      {{"--delay", "1ms"}, "--delay: expected --rate with it, got none\n"}};
  for (const Example& example : examples) {
    std::vector<std::string> words = {"validate", scenario(folder)};
    words.insert(words.end(), example.more.begin(), example.more.end());
    const Outcome outcome = run_program(words);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == example.message);
  }
  const Outcome papers = run_program({"validate", "validate/papers", "--workers", "4"});
  CHECK(papers.exit_code == 2);
  CHECK(papers.err == "--workers: expected a plan, a scenario or a suite with it, got none\n");
}

TEST_CASE("worker group: a process keeps its layers from one task to the next") {
  const std::filesystem::path file = support::source_dir() / "validate/suites/models/small-cnn.json";
  const live::RealLayers layers = {.model = core::read_model(core::Field::load(file))};
  live::WorkerGroup worker_group({.workers = 2});
  const live::RunningLayers* const first = &worker_group.layers(layers);
  CHECK(&worker_group.layers(layers) == first);
}

}  // namespace
