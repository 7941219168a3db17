#include "collectives/transport/launch.hpp"

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "tests/collectives/transport/ranks.hpp"

namespace {

using namespace std::chrono_literals;
using transport::launch;
using transport::RankEnd;

TEST_CASE("launch: exit codes, what was printed, and what was thrown, by rank") {
  std::vector<std::string> lines;
  const auto ends = launch(3,
                           [](std::uint32_t rank) {
                             std::printf("out %u", rank);
                             if (rank == 1) throw std::runtime_error("went wrong");
                             (void)std::fputs("one\ntwo", stderr);
                             return rank == 2 ? 7 : 0;
                           },
                           {.limit = 30s, .on_line = [&](std::uint32_t rank, std::string_view line) {
                              lines.push_back(std::to_string(rank) + ' ' + std::string(line));
                            }});
  for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(ends[rank].out == "out " + std::to_string(rank));
  CHECK(ends[0].is_good());
  CHECK(ends[1].exit_code == 1);
  CHECK(ends[1].err == "went wrong\n");
  CHECK(ends[2].exit_code == 7);
  std::sort(lines.begin(), lines.end());
  CHECK(lines == std::vector<std::string>{"0 one", "0 two", "1 went wrong", "2 one", "2 two"});
  CHECK(transport::failures(ends) == "rank 1 (pid " + std::to_string(ends[1].pid) +
                                         ") said: went wrong; rank 2 (pid " + std::to_string(ends[2].pid) +
                                         ") said: two");
  CHECK(processes::no_child_left());
}

TEST_CASE("launch: megabytes of output do not block a rank") {
  const auto ends = launch(2,
                           [](std::uint32_t /*rank*/) {
                             const std::string much(2'000'000, 'x');
                             (void)std::fputs(much.c_str(), stdout);
                             return 0;
                           },
                           {.limit = 30s});
  CHECK(ends[1].out.size() == 2'000'000);
}

TEST_CASE("launch: after a failure, and at the limit, whoever still runs is killed, stopped or not") {
  for (const bool one_fails : {true, false}) {
    CAPTURE(one_fails);
    const auto before = std::chrono::steady_clock::now();
    const auto ends = launch(2,
                             [&](std::uint32_t rank) {
                               if (rank == 0 && one_fails) return 1;
                               if (rank == 1) ::raise(SIGSTOP);
                               std::this_thread::sleep_for(60s);
                               return 0;
                             },
                             {.limit = one_fails ? 30s : 200ms, .grace = 50ms});
    CHECK(std::chrono::steady_clock::now() - before < 20s);
    CHECK(ends[1].was_ended);
    CHECK(ends[1].signal == SIGKILL);
    CHECK(processes::no_child_left());
  }
}

TEST_CASE("launch: a signal that this process ignores ends nothing") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const auto ends = launch(1, [](std::uint32_t /*rank*/) { return std::getchar() == EOF ? 0 : 1; },
                           {.limit = 30s, .on_started = [](const auto& /*pids*/) { ::raise(SIGHUP); }});
  (void)std::signal(SIGHUP, before);
  CHECK(transport::failures(ends).empty());
}

/// The ranks of one that is itself a process, by its standard output.
TEST_CASE("launch: no rank outlives the one that started it, however that ends") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    transport::LaunchOptions options{.limit = 30s, .grace = 50ms};
    std::vector<pid_t> starter;
    std::string ranks;
    options.on_started = [&](const std::vector<pid_t>& pids) { starter = pids; };
    options.on_line = [&](std::uint32_t /*rank*/, std::string_view line) {
      ranks = line;
      ::kill(starter[0], signal);
    };
    const auto ends = launch(
        1,
        [](std::uint32_t /*rank*/) {
          launch(2,
                 [](std::uint32_t /*inner*/) {
                   std::this_thread::sleep_for(60s);
                   return 0;
                 },
                 {.on_started = [](const std::vector<pid_t>& pids) {
                   (void)std::fprintf(stderr, "%d %d\n", pids[0], pids[1]);
                 }});
          return 0;
        },
        options);
    CHECK(ends[0].signal == signal);
    int first = 0;
    int second = 0;
    REQUIRE(std::sscanf(ranks.c_str(), "%d %d", &first, &second) == 2);
    const auto until = std::chrono::steady_clock::now() + 10s;
    const auto runs = [](pid_t pid) {  // one that nobody has reaped yet does not run
      const std::string path = "/proc/" + std::to_string(pid) + "/stat";
      std::FILE* file = std::fopen(path.c_str(), "r");
      if (file == nullptr) return false;
      char state = 'Z';
      const int read = std::fscanf(file, "%*d (%*[^)]) %c", &state);
      (void)std::fclose(file);
      return read == 1 && state != 'Z' && state != 'X';
    };
    while ((runs(first) || runs(second)) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(2ms);
    CHECK_FALSE(runs(first));
    CHECK_FALSE(runs(second));
  }
}

}  // namespace
