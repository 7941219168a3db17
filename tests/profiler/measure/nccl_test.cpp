// measure --backend nccl through the real program, on libraries that stand for CUDA and NCCL: processes,
// rendezvous, verification, deadlines. What only a GPU shows is not seen here.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "collectives/transport/tcp/sockets.hpp"
#include "profiler/measure/nccl/tuning_log.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"

namespace {

using nlohmann::json;
using support::Environment;
using support::Outcome;

Outcome measure(const std::vector<std::string>& more, std::map<std::string, std::string> variables = {}) {
  const Environment environment(support::with_fake_cuda(std::move(variables)));
  std::vector<std::string> words = {"measure",       "--backend", "nccl",      "--sizes", "4KiB,100000",
                                    "--repetitions", "2",         "--warm-up", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return support::run_program(words);
}

/// Whether a line says it, apart from process ids.
bool says(const std::string& err, const std::string& what) { return err.find(what) != std::string::npos; }

std::int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST_CASE("nccl: without a GPU one line says so, exit 1") {
  const Environment none("CUDA_VISIBLE_DEVICES", "-1");
  const Outcome outcome = support::run_program({"measure", "--backend", "nccl", "--workers", "2"});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  CHECK(lines(outcome.err) == 1);
}

TEST_CASE("nccl: every collective between processes, checked, with what NCCL says of each" *
          support::needs(support::no_fake_cuda)) {
  for (const char* timing : {"--isolated", "--back-to-back"}) {
    const Outcome outcome = measure({"--workers", "3", timing, "--collectives",
                                     "all_reduce,reduce_scatter,all_gather,broadcast,send_receive"},
                                    {{"FAKE_CUDA_DEVICES", "4"}});
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    const json network = json::parse(outcome.out);
    REQUIRE(network.at("measured").size() == 3);
    CHECK(network.at("measured").at(0).at("workers") == 3);
    CHECK(!network.at("measured").at(0).contains("algorithm"));
    CHECK(network.at("link").at("alpha_us") >= 0);
    const std::string source = network.at("origin").at("source");
    CAPTURE(source);
    CHECK(says(source, "3 processes, loopback; NCCL 2.28.9 on Fake GPU, launch included"));
    CHECK(says(source,
               "all_reduce tree/ll from 4 KiB, ring/simple from 100000 B, reduce_scatter tree/ll from"));
    CHECK(says(source, "; reduce_scatter and all_gather take "));
  }
}

TEST_CASE("nccl: an algorithm that is asked for stands in the network, and in NCCL's environment" *
          support::needs(support::no_fake_cuda)) {
  const Outcome outcome = measure(
      {"--workers", "2", "--algorithm", "ring", "--protocol", "simple", "--collectives", "all_reduce"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json network = json::parse(outcome.out);
  CHECK(network.at("measured").at(0).at("algorithm") == "ring");
  CHECK(says(network.at("origin").at("source"), "NCCL_ALGO=Ring, NCCL_PROTO=Simple"));
}

TEST_CASE("nccl: what its log does not say stays unknown" * support::needs(support::no_fake_cuda)) {
  const Outcome outcome =
      measure({"--workers", "2", "--collectives", "all_reduce"}, {{"NCCL_DEBUG", "WARN"}});
  REQUIRE(outcome.exit_code == 0);
  CHECK(says(json::parse(outcome.out).at("origin").at("source"), "all_reduce unknown from 4 KiB"));
}

TEST_CASE("nccl: a GPU for each rank, or one that is shared on purpose" *
          support::needs(support::no_fake_cuda)) {
  const Outcome refused = measure({"--workers", "3"}, {{"FAKE_CUDA_DEVICES", "1"}});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err ==
        "--workers: expected at most 1, one for each GPU of this host, or --share-gpu, got '3'\n");
  const Outcome shared = measure({"--workers", "3", "--share-gpu"}, {{"FAKE_CUDA_DEVICES", "1"}});
  CAPTURE(shared.err);
  REQUIRE(shared.exit_code == 0);
  CHECK(says(json::parse(shared.out).at("origin").at("source"), "which ranks share, over sockets"));
  const Outcome none = measure({"--workers", "2"}, {{"FAKE_CUDA_DEVICES", "0"}});
  CHECK(none.exit_code == 1);
  CHECK(none.err == "no CUDA device: no CUDA-capable device is detected\n");
}

TEST_CASE("nccl: what goes wrong on a rank is one line, soon, and every process ends" *
          support::needs(support::no_fake_cuda)) {
  struct Example {
    const char* fault;
    const char* said;
    const char* or_said = said;  ///< where another rank may be the first to notice
  };
  const Example examples[] = {
      {"wrong:1", "said: rank 1: all_reduce of 4 KiB: value 512 of 1024 must be "},
      {"error:1", "said: NCCL: all_reduce: unhandled system error"},
      {"async:1", "said: NCCL: all_reduce: remote process exited or there was a network error"},
      {"stream:1", "said: rank 1: all_reduce was not done after 1 s",
       "said: rank 0: all_reduce has not returned within 1 s"},
      {"block:1", "said: rank 1: all_reduce has not returned within 1 s",
       "said: rank 0: all_reduce has not returned within 1 s"},
      {"init:1", "said: rank 1: CUDA's and NCCL's initialisation has not returned within 1 s"},
      {"die:1", "was killed by signal 9"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.fault);
    const auto begun = std::chrono::steady_clock::now();
    const Outcome outcome = measure({"--workers", "2", "--deadline", "1", "--collectives", "all_reduce"},
                                    {{"FAKE_NCCL", example.fault}});
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out.empty());
    CHECK(lines(outcome.err) == 1);
    CHECK((says(outcome.err, example.said) || says(outcome.err, example.or_said)));
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
  }
}

TEST_CASE("nccl: processes that others have started, by torchrun's variables" *
          support::needs(support::no_fake_cuda)) {
  const auto port = transport::local_address(transport::listen_on({.host = "127.0.0.1", .port = 0})).port;
  const Environment job({{"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", std::to_string(port)},
                         {"FUSEWISE_SECRET", "a secret of this test"}});
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) ::_exit(measure({"--collectives", "all_reduce"}, {{"RANK", "1"}}).exit_code);
  const Outcome outcome = measure({"--collectives", "all_reduce"}, {{"RANK", "0"}});
  int status = 0;
  ::waitpid(other, &status, 0);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(says(outcome.out, "2 processes, started from outside; NCCL 2.28.9"));
}

TEST_CASE("nccl: the last line of its log about a function counts") {
  const char* log =
      "h:1:2 [0] NCCL INFO AllReduce: 64 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}\n"
      "h:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..1}\n"
      "h:1:2 [0] NCCL INFO AllGather: 4096 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..1}\n";
  CHECK(measure::last_choice(log, "AllReduce") ==
        measure::TuningChoice{.algorithm = "ring", .protocol = "ll128"});
  CHECK(measure::last_choice(log, "AllGather") ==
        measure::TuningChoice{.algorithm = "nvls_tree", .protocol = "simple"});
  CHECK(!measure::last_choice(log, "Broadcast"));
  CHECK(!measure::last_choice("NCCL INFO AllReduce: 4096 Bytes -> Algo 1 proto 2 time 3.0", "AllReduce"));
  CHECK(!measure::last_choice("", "AllReduce"));
}

}  // namespace
