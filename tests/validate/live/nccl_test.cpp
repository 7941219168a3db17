// Live runs whose groups NCCL transfers, between processes, on mock CUDA and NCCL libraries: sums are real
// and checked, failing workers are named, and all processes end. Behaviour specific to a GPU is not tested.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "collectives/transport/tcp/sockets.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/validate/live/live.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/execute.hpp"

namespace {

using live_tests::spec_for;
using support::Environment;
using support::Outcome;

live::Place place(std::uint32_t workers, double deadline_s = 20) {
  return {.workers = workers, .backend = "nccl", .share_gpu = true, .deadline_s = deadline_s};
}

Environment fakes(const std::map<std::string, std::string>& more = {}) {
  return Environment(support::with_fake_cuda(more));
}

/// All schedules that each pipeline supports with dense groups.
std::vector<std::string> schedules() {
  std::vector<std::string> out;
  for (const char* begin :
       {R"("pipeline": "after_backward")", R"("pipeline": "wfbp")", R"("pipeline": "dear")",
        R"("pipeline": "dear", "prefetch": 1)", R"("pipeline": "zero")", R"("pipeline": "sharded")",
        R"("pipeline": "sharded", "reshard_after_forward": true)"})
    out.push_back(std::string("{") + begin + R"(, "fusion": {"kind": "groups", "count": 3}})");
  out.emplace_back(R"({"pipeline": "priority", "partition_bytes": 400, "credit_bytes": 900})");
  return out;
}

live::Record run(live::WorkerGroup& worker_group, const live::RunSpec& spec,
                 const live::WorkerGroupHooks& hooks = {}) {
  const live::Calibration calibration = live_tests::made_up(spec);
  return live::execute(worker_group, spec, calibration, live::predict(spec, calibration), hooks);
}

/// The error message of a failing run; empty if it succeeds.
std::string failure(live::WorkerGroup& worker_group, const live::RunSpec& spec,
                    const live::WorkerGroupHooks& hooks = {}) {
  try {
    run(worker_group, spec, hooks);
    return "";
  } catch (const core::EnvironmentError& error) {
    return error.what();
  }
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST_CASE("live nccl: groups of every pipeline are summed on every rank" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes({{"FAKE_CUDA_DEVICES", "1"}});
  std::uint32_t workers = 2;
  for (const std::string& text : schedules()) {
    CAPTURE(text);
    live::WorkerGroup worker_group(place(workers));
    const live::Record record = run(worker_group, spec_for(text, workers));
    REQUIRE(record.workers.size() == workers);
    for (const live::WorkerRecord& worker : record.workers) {
      CHECK(worker.iterations.size() == 2);
      for (const live::Iteration& iteration : worker.iterations)
        CHECK(std::ranges::count_if(iteration.pieces, &live::Piece::is_collective) >= 3);
    }
    workers = workers == 4 ? 2 : workers + 1;
  }
}

TEST_CASE("live nccl: a wrong value of the library's ends the run, named with iteration and group" *
          support::needs(support::no_fake_cuda)) {
  for (const std::string& text : schedules()) {
    const bool is_sharded = says(text, "sharded");
    for (const char* fault : {"wrong:1", "gather:1"}) {
      const bool gathers = !says(text, "after_backward") && !says(text, "wfbp") && !says(text, "priority");
      if (!gathers && std::string(fault) == "gather:1") continue;
      CAPTURE(text);
      CAPTURE(fault);
      const Environment environment = fakes({{"FAKE_NCCL", fault}});
      live::WorkerGroup worker_group(place(2));
      const std::string said = failure(worker_group, spec_for(text, 2));
      CAPTURE(said);
      CHECK(says(said, " said: warm-up 1: group "));
      CHECK(says(said, ": value "));
      if (is_sharded) CHECK(says(said, "worker 1 "));  // the other workers do not detect it
    }
  }
}

TEST_CASE("live nccl: who is killed is named with its phase, in time, and all end" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes();
  live::WorkerGroup worker_group(place(3, 300));
  for (const char* pipeline : {R"("wfbp")", R"("dear")"}) {
    live::RunSpec spec = spec_for(pipeline, 3);
    spec.iterations = 2000;
    live_tests::Killer killer;
    const auto begun = std::chrono::steady_clock::now();
    const std::string said = failure(worker_group, spec, killer.hooks());
    CAPTURE(said);
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(60));  // its deadline is later
    CHECK(said.rfind(killer.said(), 0) == 0);
    CHECK(!says(said, "\n"));
    for (const pid_t pid : killer.pids) CHECK(::kill(pid, 0) != 0);
  }
}

TEST_CASE("live nccl: what the library does not do any more is one line with the worker and its phase" *
          support::needs(support::no_fake_cuda)) {
  struct Example {
    const char* fault;
    const char* said;
  };
  for (const Example& example :
       {Example{"error:1", "worker 1 (pid "}, Example{"error:1", "NCCL: all_reduce: unhandled system error"},
        Example{"async:1", "NCCL: all_reduce: remote process exited"}, Example{"stream:1", ": all_reduce "},
        Example{"block:1", ": all_reduce has not returned within 1 s"},
        Example{"init:1", ": CUDA's and NCCL's initialisation has not returned within 1 s"}}) {
    const Environment environment = fakes({{"FAKE_NCCL", example.fault}});
    live::WorkerGroup worker_group(place(2, 1));
    const std::string said = failure(worker_group, spec_for(R"("wfbp")", 2));
    CAPTURE(said);
    CHECK(says(said, example.said));
    CHECK(!says(said, "\n"));
  }
}

TEST_CASE("live nccl: calibration measures by the library, whose curves name no algorithm" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes();
  live::WorkerGroup worker_group(place(2));
  const live::RunSpec spec = spec_for(R"({"pipeline": "dear", "fusion": {"kind": "groups", "count": 2}})", 2);
  const live::Calibration calibration =
      live::calibrate(worker_group, {spec}, {.repetitions = 2, .warm_up = 1, .sizes = 3});
  CHECK(says(calibration.where, "2 processes, loopback; NCCL 2.28.9 on Fake GPU, which ranks share"));
  CHECK(says(calibration.network.origin.source, "; reduce_scatter tree/ll from"));
  CHECK(calibration.network.link);
  REQUIRE(calibration.network.measured.size() == 2);
  for (const core::Measured& curve : calibration.network.measured) CHECK(!curve.algorithm);
  CHECK(live::predict(spec, calibration).iteration_us > 0);
}

// ---- through the program

std::string scenario(const support::TemporaryFolder& folder, const std::string& schedules,
                     const std::string& more = "") {
  return folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "name": "s", "workers": 2,
    "profile": )" + core::profile_text(live_tests::small_profile()) +
                                  R"(, "network": {"format": "fusewise.network", "version": 1, "name": "n",
    "origin": {"kind": "estimated", "source": "made up"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.01}},
    "schedules": )" + schedules + more +
                                  "}");
}

std::vector<std::string> words(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> out = {"validate",    file,           "--backend", "nccl",
                                  "--share-gpu", "--iterations", "2",         "--warm-up",
                                  "1",           "--tolerance",  "1000"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST_CASE("validate nccl: a scenario is predicted, run and compared" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes();
  const support::TemporaryFolder folder;
  const std::string report = folder / "report.json";
  const Outcome outcome = support::run_program(
      words(scenario(folder, R"(["wfbp", {"name": "dear", "fusion": "all"}, "fsdp"])"), {"-o", report}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.rfind("2 processes, loopback; NCCL 2.28.9 on Fake GPU, ", 0) == 0);
  const auto written = nlohmann::json::parse(core::read_file(report));
  CHECK(written.at("plans").size() == 3);
  CHECK(says(written.at("where"), "NCCL 2.28.9"));
  CHECK(core::read_file(report + ".prediction").size() > 10);
}

TEST_CASE("validate nccl: as a process of several, by torchrun's variables" *
          support::needs(support::no_fake_cuda)) {
  const support::TemporaryFolder folder;
  const std::string file = scenario(folder, R"(["wfbp", "sync-easgd"])");
  const auto port = transport::local_address(transport::listen_on({.host = "127.0.0.1", .port = 0})).port;
  const Environment job = fakes({{"WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"MASTER_PORT", std::to_string(port)},
                                 {"FUSEWISE_SECRET", "a secret of this test"}});
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    const Environment second(std::map<std::string, std::string>{{"RANK", "1"}});
    const Outcome outcome = support::run_program(words(file));
    ::_exit(outcome.out.empty() ? outcome.exit_code : 99);  // only the first process prints
  }
  const Environment first(std::map<std::string, std::string>{{"RANK", "0"}});
  const Outcome outcome = support::run_program(words(file));
  int status = 0;
  ::waitpid(other, &status, 0);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(outcome.out.rfind("2 processes, started from outside; NCCL 2.28.9", 0) == 0);
}

TEST_CASE("validate nccl: without a GPU one line says so, exit 1") {
  const support::TemporaryFolder folder;
  const std::string file = scenario(folder, R"(["wfbp"])");
  const Environment environment("CUDA_VISIBLE_DEVICES", "-1");
  const Outcome outcome = support::run_program(words(file));
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  CHECK(outcome.err.rfind("no CUDA device: ", 0) == 0);
}

TEST_CASE("validate nccl: a CUDA library that finds no device is quoted, exit 1" *
          support::needs(support::no_fake_cuda)) {
  const support::TemporaryFolder folder;
  const std::string file = scenario(folder, R"(["wfbp"])");
  const Environment environment = fakes({{"FAKE_CUDA_DEVICES", "0"}});
  const Outcome none = support::run_program(words(file));
  CHECK(none.exit_code == 1);
  CHECK(none.err == "no CUDA device: no CUDA-capable device is detected\n");
}

TEST_CASE("validate nccl: layers run where the groups are, so without a GPU for them nowhere" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes({{"CUDA_VISIBLE_DEVICES", "-1"}});
  const support::TemporaryFolder folder;
  const std::string model =
      folder.put("m.json",
                 R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "", "batch_size": 2,
          "dtype": "float32", "input": [{"name": "x", "shape": [3, 8, 8]}],
          "layers": [{"name": "flat", "kind": "flatten"}, {"name": "fc", "kind": "linear", "out_features": 10},
                     {"name": "loss", "kind": "cross_entropy"}]})");
  const Outcome outcome =
      support::run_program(words(scenario(folder, R"(["wfbp"])"), {"--layers", model, "--computing", "1"}));
  CHECK(outcome.exit_code == 1);
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  CHECK(says(outcome.err, "worker 0 (pid "));
  CHECK(says(outcome.err, " said: calibration of layers: no CUDA device: "));
}

TEST_CASE("validate nccl: what it does not run is refused in one line, exit 2") {
  const Environment environment = fakes({{"FAKE_CUDA_DEVICES", "1"}});
  const support::TemporaryFolder folder;
  struct Example {
    const char* schedules;
    const char* more;
    std::vector<std::string> options;
    const char* message;
  };
  const Example examples[] = {
      {R"([{"name": "wfbp", "compression": "fp16"}])",
       "",
       {},
       "wfbp fp16: expected no compression with --backend nccl, got fp16\n"},
      {R"(["wfbp"])",
       R"(, "collectives": {"all_reduce": "binary_tree"})",
       {},
       "wfbp: expected ring, as the library chooses the algorithm itself with --backend nccl, "
       "got binary_tree\n"},
      {R"(["wfbp"])",
       "",
       {"--rate", "1gbit", "--paced"},
       "--paced: expected --backend tcp with it, got nccl\n"},
      {R"(["wfbp"])", "", {"--backend", "tcp"}, "--share-gpu: expected --backend nccl with it, got tcp\n"},
      {R"(["wfbp"])",
       "",
       {"--backend", "mpi"},
       "--backend: expected one of tcp, nccl, got 'mpi' (try --help)\n"},
  };
  for (const Example& example : examples) {
    std::vector<std::string> all = words(scenario(folder, example.schedules, example.more));
    if (!example.options.empty() && example.options.front() == "--backend")
      all[3] = example.options.back();
    else
      all.insert(all.end(), example.options.begin(), example.options.end());
    const Outcome outcome = support::run_program(all);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == example.message);
  }
}

TEST_CASE("validate nccl: more workers than GPUs are refused in one line, exit 2" *
          support::needs(support::no_fake_cuda)) {
  const Environment environment = fakes({{"FAKE_CUDA_DEVICES", "1"}});
  const support::TemporaryFolder folder;
  const Outcome crowded = support::run_program(
      {"validate", scenario(folder, R"(["wfbp"])"), "--backend", "nccl", "--workers", "3"});
  CHECK(crowded.exit_code == 2);
  CHECK(crowded.err ==
        "--workers: expected at most 1, one for each GPU of this host, or --share-gpu, got '3'\n");
}

}  // namespace
