// measure and netlab through the real program.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "collectives/transport/tcp/sockets.hpp"
#include "core/files.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/namespaces.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

std::vector<std::string> measuring(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"measure", "--sizes",   "4KiB..8KiB", "--repetitions",
                                    "2",       "--warm-up", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("measure: processes that it starts itself write a network and every repetition") {
  const support::TemporaryFolder folder;
  const std::string network = (folder.path() / "n.json").string();
  const std::string samples = (folder.path() / "s.csv").string();
  const Outcome outcome = run_program(measuring({"--workers", "3", "-o", network, "--samples", samples}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.rfind("3 processes, loopback; ", 0) == 0);
  const json written = json::parse(core::read_file(network));
  CHECK(written.at("format") == "fusewise.network");
  CHECK(written.at("measured").size() == 3);
  CHECK(written.at("measured").at(0).at("workers") == 3);
  CHECK(written.at("link").at("alpha_us") >= 0);
  const std::string rows = core::read_file(samples);
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 1 + 4 * 2 * 2);
  CHECK(run_program({"show", network}).exit_code == 0);
}

/// A measurement at 1 Gb/s, in namespaces where `before` does not forbid them.
Outcome measure_shaped(void (*before)() = nullptr) {
  const Outcome outcome = run_program(
      measuring({"--workers", "2", "--rate", "1gbit", "--collectives", "all_reduce", "--back-to-back"}),
      before);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out).at("line_rate_gbps") == 1);
  return outcome;
}

TEST_CASE("measure: links of namespaces are held to a rate" * support::needs(support::no_namespaces)) {
  const Outcome outcome = measure_shaped();
  CHECK(outcome.out.find("network namespaces, each link held to 1 Gb/s") != std::string::npos);
  CHECK(outcome.err.empty());
}

TEST_CASE("measure: paced loopback where there are no namespaces, and a line that says so") {
  const Outcome outcome = measure_shaped(support::forbid_namespaces);
  CHECK(outcome.out.find("loopback, each process paced to 1 Gb/s") != std::string::npos);
  CHECK(outcome.err.rfind("warning: netlab: ", 0) == 0);
  const Outcome paced =
      run_program(measuring({"--workers", "2", "--rate", "1gbit", "--paced", "--collectives", "all_reduce"}));
  CHECK(paced.exit_code == 0);
  CHECK(paced.out.find("each process paced to 1 Gb/s") != std::string::npos);
}

TEST_CASE("measure: a broadcast alone, which makes no network, is measured and printed as a table") {
  const support::TemporaryFolder folder;
  const std::string samples = (folder.path() / "s.csv").string();
  const Outcome outcome =
      run_program(measuring({"--workers", "2", "--collectives", "broadcast", "--samples", samples}));
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.rfind("2 processes, loopback; ", 0) == 0);
  CHECK(outcome.out.find("\nbroadcast ") != std::string::npos);
  const std::string rows = core::read_file(samples);
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 1 + 2 * 2);
  const Outcome one_size = run_program({"measure", "--workers", "2", "--collectives", "send_receive",
                                        "--sizes", "4KiB", "--repetitions", "2", "--warm-up", "1"});
  CHECK(one_size.exit_code == 0);
  CHECK(one_size.out.find("\nsend_receive ") != std::string::npos);
}

TEST_CASE("netlab: up, status, measured in and down" * support::needs(support::no_namespaces)) {
  const support::TemporaryFolder folder;
  const support::Environment environment("XDG_RUNTIME_DIR", folder.path().string());
  const Outcome up = run_program({"netlab", "up", "--workers", "2", "--rate", "1gbit"});
  REQUIRE(up.exit_code == 0);
  CHECK(run_program({"netlab", "up"}).err ==
        "netlab 'default' is up already (fusewise netlab down --name default)\n");
  CHECK(run_program({"netlab", "status"}).out == up.out);
  const Outcome measured = run_program(measuring({"--netlab", "--collectives", "all_reduce"}));
  CHECK(measured.exit_code == 0);
  CHECK(measured.out.find("2 processes, network namespaces, each link held to 1 Gb/s") != std::string::npos);
  CHECK(run_program({"netlab", "down"}).out == "netlab 'default' is down\n");
  CHECK(run_program({"netlab", "status"}).out == "netlab 'default' is not up\n");
  CHECK(std::filesystem::is_empty(folder.path() / "fusewise"));
}

/// Whether SIGKILL is on its way to a process.
bool is_killed(const std::string& status) {
  for (const std::string key : {"SigPnd:\t", "ShdPnd:\t"}) {
    const std::size_t at = status.find(key);
    if (at != std::string::npos &&
        (std::stoull(status.substr(at + key.size(), 16), nullptr, 16) >> (SIGKILL - 1) & 1U) != 0)
      return true;
  }
  return false;
}

/// A file of a process under /proc; empty if the process ends meanwhile.
std::string of_process(const std::filesystem::path& path) {
  try {
    return support::contents(path);
  } catch (const std::system_error&) {
    return "";
  }
}

/// The processes that have this in their environment and are not killed yet.
std::set<std::string> left_with(const std::string& variable) {
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos || number == std::to_string(::getpid()))
      continue;
    const std::string environment = '\0' + of_process(entry.path() / "environ");
    const std::string status = of_process(entry.path() / "status");
    if (environment.find('\0' + variable + '\0') != std::string::npos && !is_killed(status))
      left.insert(number);
  }
  return left;
}

TEST_CASE("netlab: whenever up is killed, down removes everything, and so does the next up" *
          support::needs(support::no_namespaces)) {
  const support::TemporaryFolder folder;
  const support::Environment environment("XDG_RUNTIME_DIR", folder.path().string());
  const std::string mark = "XDG_RUNTIME_DIR=" + folder.path().string();
  const std::string program = support::program();
  const auto begin = [&] {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child != 0) return child;
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    ::execl(program.c_str(), program.c_str(), "netlab", "up", "--workers", "32", nullptr);
    ::_exit(127);
  };
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begun = now();
  (void)::waitpid(begin(), nullptr, 0);
  const auto took = now() - begun;
  CHECK(left_with(mark).size() == 1);
  CHECK(run_program({"netlab", "down"}).out == "netlab 'default' is down\n");
  std::mt19937 random(5);
  for (int i = 0; i < 18; ++i) {
    const pid_t child = begin();
    std::this_thread::sleep_for(took * std::uniform_real_distribution(0.0, 1.1)(random));
    ::kill(child, std::array{SIGINT, SIGTERM, SIGKILL}[static_cast<std::size_t>(i % 3)]);
    (void)::waitpid(child, nullptr, 0);
    if (i % 2 == 1) {  // the network is there as a whole, or what is left of it is replaced
      const Outcome next = run_program({"netlab", "up", "--workers", "2"});
      CHECK((next.exit_code == 0 || next.err.find("netlab 'default' is up already") != std::string::npos));
      CHECK(run_program({"netlab", "status"}).out.find("netlab 'default' is up: ") == 0);
    }
    CHECK(run_program({"netlab", "down"}).exit_code == 0);
    // the commands that a keeper has begun may end, but nothing begins another one
    const std::set<std::string> at_end = left_with(mark);
    const auto ended = now();
    for (std::set<std::string> left = at_end; !left.empty(); left = left_with(mark)) {
      REQUIRE(now() - ended < std::chrono::seconds(60));
      REQUIRE(std::includes(at_end.begin(), at_end.end(), left.begin(), left.end()));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(std::filesystem::is_empty(folder.path() / "fusewise"));
  }
}

TEST_CASE("netlab: without namespaces nothing comes up, and what is not up goes down again") {
  const support::TemporaryFolder folder;
  const support::Environment environment("XDG_RUNTIME_DIR", folder.path().string());
  const Outcome up =
      run_program({"netlab", "up", "--workers", "2", "--rate", "1gbit"}, support::forbid_namespaces);
  CHECK(up.exit_code == 1);
  CHECK(up.out.empty());
  CHECK(up.err.rfind("netlab: ", 0) == 0);
  const Outcome again = run_program({"netlab", "down"});
  CHECK(again.exit_code == 0);
  CHECK(again.out == "netlab 'default' was not up\n");
  CHECK(run_program({"netlab", "status"}).out == "netlab 'default' is not up\n");
  const Outcome nowhere = run_program(measuring({"--netlab", "nowhere"}));
  CHECK(nowhere.exit_code == 1);
  CHECK(nowhere.err == "netlab 'nowhere' is not up (fusewise netlab up --name nowhere)\n");
  CHECK(std::filesystem::is_empty(folder.path() / "fusewise"));
}

TEST_CASE("measure: wrong usage is one line, exit 2") {
  struct Example {
    std::vector<std::string> arguments;
    const char* message;
  };
  const Example examples[] = {
      {{"measure", "--workers", "2", "--backend", "mpi"},
       "--backend: expected one of tcp, nccl, got 'mpi'\n"},
      {{"measure", "--workers", "2", "--collectives", "broadcast", "-o", "never-written.json"},
       "--collectives: expected all_reduce, reduce_scatter, all_gather or, of two sizes, send_receive among "
       "them with --output or --json, as nothing else makes a network, got 'broadcast'\n"},
      {{"measure", "--workers", "2", "--protocol", "ll"},
       "--protocol: expected none with --backend tcp, got 'll'\n"},
      {{"measure", "--workers", "2", "--backend", "nccl", "--rate", "1gbit", "--paced"},
       "--paced: expected --backend tcp with it, got nccl\n"},
      {{"measure"},
       "--workers: expected it, or a --netlab, or a start by mpirun, srun or torchrun, got neither\n"},
      {{"measure", "--workers", "2", "--sizes", "1KiB..x"},
       "--sizes: expected sizes such as 1KiB..64MiB,100MB, got '1KiB..x'\n"},
      {{"measure", "--workers", "2", "--sizes", "6"},
       "--sizes: expected multiples of 4 bytes up to 4GiB, got '6'\n"},
      {{"measure", "--workers", "2", "--rate", "fast"},
       "--rate: expected a rate in kbit, mbit, gbit or tbit (a second), such as 1gbit, got 'fast'\n"},
      {{"measure", "--workers", "2", "--delay", "1ms"}, "--delay: expected --rate with it, got none\n"},
      {{"measure", "--workers", "2", "--collectives", "all_reduce,gather"},
       "--collectives: expected one of all_reduce, reduce_scatter, all_gather, broadcast, send_receive, got "
       "'gather'\n"},
      {{"measure", "--workers", "2", "--algorithm", "star"},
       "--algorithm: expected one of ring, binary_tree, recursive_doubling, halving_doubling, "
       "double_binary_tree, got "
       "'star'\n"},
      {{"netlab", "up", "--rate", "0gbit"},
       "--rate: expected a rate in kbit, mbit, gbit or tbit (a second), such as 1gbit, got '0gbit'\n"},
  };
  for (const Example& example : examples) {
    const Outcome outcome = run_program(example.arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == example.message);
  }
}

TEST_CASE("measure: as a process of several, by the environment") {
  const support::TemporaryFolder folder;
  std::vector<pid_t> others;
  // On a port that was free just now; rank 1 tries until rank 0 listens.
  const std::string master =
      transport::text(transport::local_address(transport::listen_on({.host = "127.0.0.1", .port = 0})));
  ::setenv("FUSEWISE_WORLD_SIZE", "2", 1);
  ::setenv("FUSEWISE_MASTER", master.c_str(), 1);
  ::setenv("FUSEWISE_SECRET", "a secret of this test", 1);
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    ::setenv("FUSEWISE_RANK", "1", 1);
    ::_exit(run_program(measuring({"--collectives", "all_reduce"})).exit_code);
  }
  ::setenv("FUSEWISE_RANK", "0", 1);
  const Outcome outcome = run_program(measuring({"--collectives", "all_reduce"}));
  for (const char* name : {"FUSEWISE_RANK", "FUSEWISE_WORLD_SIZE", "FUSEWISE_MASTER", "FUSEWISE_SECRET"})
    ::unsetenv(name);
  int status = 0;
  ::waitpid(other, &status, 0);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(outcome.out.find("2 processes, started from outside") != std::string::npos);

  ::setenv("FUSEWISE_RANK", "x", 1);
  const Outcome wrong = run_program({"measure"});
  ::unsetenv("FUSEWISE_RANK");
  CHECK(wrong.exit_code == 2);
}

}  // namespace
