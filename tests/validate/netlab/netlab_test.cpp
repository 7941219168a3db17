// Creates and removes network namespaces; a case where they are not available checks the one-line error.

#include "validate/netlab/lab.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "tests/collectives/transport/ranks.hpp"
#include "tests/support/namespaces.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "validate/netlab/commands.hpp"
#include "validate/netlab/registry.hpp"

namespace {

TEST_CASE("netlab: where namespaces cannot be had one line says so, and nothing is left behind") {
  const auto ends = transport::launch(1,
                                      [](std::uint32_t /*rank*/) {
                                        support::forbid_namespaces();
                                        try {
                                          (void)netlab::build({.workers = 2, .bits_per_second = 1e9},
                                                              netlab::Lifetime::of_thread);
                                        } catch (const core::EnvironmentError& error) {
                                          (void)std::fprintf(stderr, "%s\n", error.what());
                                        }
                                        return processes::no_child_left() ? 0 : 1;
                                      },
                                      {.limit = std::chrono::seconds(40)});
  CHECK(transport::failures(ends) == "");
  const std::string& said = ends.at(0).err;
  CHECK(said.rfind("netlab: ", 0) == 0);
  CHECK(std::ranges::count(said, '\n') == 1);
}

TEST_CASE("netlab: ranks in namespaces reach each other, and nothing is left behind" *
          support::needs(support::no_namespaces)) {
  const netlab::Lab built =
      netlab::build({.workers = 3, .bits_per_second = 1e9}, netlab::Lifetime::of_thread);
  CHECK(netlab::is_up(built));
  transport::LocalJob job(3, netlab::address(0));
  const auto ends = transport::launch(
      3,
      [&](std::uint32_t rank) {
        netlab::enter(built, rank);
        transport::run_rank(job.enter(rank), processes::patient(), [](transport::Tcp& end) {
          std::vector<float> values(1000, 1.0F);
          const auto ring = cluster::find_pattern("ring")->make({.ranks = 3, .bytes = 1000});
          transport::run_collective(end, ring, values, 1);
          if (values != std::vector<float>(1000, 3.0F)) throw std::runtime_error("wrong sum");
        });
        return 0;
      },
      {.limit = std::chrono::seconds(40)});
  CHECK(transport::failures(ends) == "");
  netlab::remove(built);
  CHECK_FALSE(netlab::is_up(built));
  CHECK(processes::no_child_left());
  CHECK_THROWS_AS(netlab::enter(built, 0), core::EnvironmentError);
  netlab::remove(built);  // a second call has no effect
}

TEST_CASE("netlab: nodes are joined by a link of their own rate, which their workers share" *
          support::needs(support::no_namespaces)) {
  const netlab::Lab built = netlab::build(
      {.workers = 4, .bits_per_second = 1e9, .workers_per_node = 2, .between_bits_per_second = 2e7},
      netlab::Lifetime::of_thread);
  transport::LocalJob job(4, netlab::address(0));
  const auto ends = transport::launch(
      4,
      [&](std::uint32_t rank) {
        netlab::enter(built, rank);
        transport::run_rank(job.enter(rank), processes::patient(), [&](transport::Tcp& end) {
          constexpr std::size_t kBytes = 1'000'000;  // 0.4 s between nodes, less the burst; 8 ms inside
          const auto exchange = [&](std::uint32_t with) {
            constexpr std::uint32_t kBarrier = 100;
            const auto begun = std::chrono::steady_clock::now();  // before anyone sends
            transport::barrier(end, kBarrier);
            (void)transport::send_recv(end, with, transport::Bytes(kBytes), with, with > rank ? rank : with);
            transport::barrier(end, kBarrier);
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
          };
          (void)exchange(rank ^ 1U);
          if (exchange(rank ^ 2U) < 0.5) throw std::runtime_error("two pairs share 20 Mb/s: at least 0.7 s");
        });
        return 0;
      },
      {.limit = std::chrono::seconds(40)});
  CHECK(transport::failures(ends) == "");
  netlab::remove(built);
  CHECK(processes::no_child_left());
}

TEST_CASE("netlab: a rank whose link is cut is lost, as its host does not answer" *
          support::needs(support::no_namespaces)) {
  const netlab::ScopedLab built({.workers = 3, .bits_per_second = 1e9});
  transport::LocalJob job(3, netlab::address(0));
  transport::TcpOptions options = processes::patient();
  options.silence = std::chrono::milliseconds(1000);
  const auto ends = transport::launch(
      3,
      [&](std::uint32_t rank) {
        netlab::enter(built.lab(), rank);
        transport::run_rank(job.enter(rank), options, [&](transport::Tcp& end) {
          transport::barrier(end, 1);
          if (rank == 1) {
            const std::string of_switch = "/proc/" + std::to_string(built.lab().keeper) + "/ns/net";
            const transport::Descriptor network(::open(of_switch.c_str(), O_RDONLY | O_CLOEXEC));
            netlab::run_inside(network.get(),
                               {netlab::find_command("ip"), "link", "set", "dev", "w1", "down"}, "");
          }
          (void)end.recv(rank == 1 ? 0 : 1, 2);
        });
        return 0;
      },
      {.limit = std::chrono::seconds(40)});
  const transport::Process lost = {.host = transport::this_process().host, .pid = ends[1].pid};
  for (const std::uint32_t rank : {0U, 2U}) {
    CAPTURE(ends[rank].err);
    CHECK(ends[rank].err.find("lost " + name(1, lost) + ": its host has not answered for ") !=
          std::string::npos);
  }
}

TEST_CASE("netlab: the keeper dies with the process that has built it" *
          support::needs(support::no_namespaces)) {
  std::string keeper;
  transport::LaunchOptions options{.limit = std::chrono::seconds(40)};
  std::vector<pid_t> pids;
  options.on_started = [&](const std::vector<pid_t>& started) { pids = started; };
  options.on_line = [&](std::uint32_t /*rank*/, std::string_view line) {
    keeper = line;
    ::kill(pids[0], SIGKILL);
  };
  (void)transport::launch(
      1,
      [](std::uint32_t /*rank*/) {
        const netlab::Lab built =
            netlab::build({.workers = 2, .bits_per_second = 1e9}, netlab::Lifetime::of_thread);
        (void)std::fprintf(stderr, "%d %llu\n", static_cast<int>(built.keeper),
                           static_cast<unsigned long long>(built.keeper_started));
        ::sleep(60);
        return 0;
      },
      options);
  netlab::Lab built;
  built.keeper = std::stoi(keeper);
  built.keeper_started = std::stoull(keeper.substr(keeper.find(' ')));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (netlab::is_up(built) && std::chrono::steady_clock::now() < until) ::usleep(2000);
  CHECK_FALSE(netlab::is_up(built));
}

TEST_CASE("netlab: what is enlisted is found while its keeper lives, and struck out as often as one likes") {
  const support::TemporaryFolder folder;
  const pid_t keeper = ::fork();
  REQUIRE(keeper >= 0);
  if (keeper == 0) {
    ::sleep(60);
    ::_exit(0);
  }
  std::string stat = core::read_file("/proc/" + std::to_string(keeper) + "/stat");
  netlab::Lab lab = {.shape = {.workers = 2}, .keeper = keeper, .keeper_started = 1, .namespaces = {4, 5}};
  for (int field = 0; field < 21; ++field) stat = stat.substr(stat.find(' ') + 1);
  lab.keeper_started = std::stoull(stat);
  CHECK(netlab::is_up(lab));
  {
    const netlab::RegistryLock lock(folder.path());
    netlab::enlist(folder.path(), "a", lab);
  }
  CHECK(netlab::find_lab(folder.path(), "a") == lab);
  CHECK_FALSE(netlab::find_lab(folder.path(), "b"));
  {
    const netlab::UsedLab used = netlab::use_lab(folder.path(), "a");
    CHECK(used.lab == lab);
    CHECK_THROWS_WITH_AS(netlab::use_lab(folder.path(), "a"),
                         "netlab 'a' is used by another command: run one after the other, or make another "
                         "netlab (fusewise netlab up --name NAME)",
                         core::EnvironmentError);
  }
  CHECK(netlab::use_lab(folder.path(), "a").lab == lab);
  CHECK_THROWS_WITH_AS(netlab::use_lab(folder.path(), "b"),
                       "netlab 'b' is not up (fusewise netlab up --name b)", core::EnvironmentError);
  netlab::Lab other = lab;
  ++other.keeper_started;  // another process has the number now
  CHECK_FALSE(netlab::is_up(other));
  netlab::remove(other);
  CHECK(netlab::is_up(lab));
  netlab::remove(lab);
  (void)::waitpid(keeper, nullptr, 0);
  CHECK_FALSE(netlab::find_lab(folder.path(), "a"));
  netlab::remove_lab_file(folder.path(), "a");
  netlab::remove_lab_file(folder.path(), "a");
  CHECK(folder.count() == 0);
}

TEST_CASE("netlab: a file that is none is refused") {
  struct Example {
    const char* text;
    const char* message;
  };
  const Example examples[] = {
      {"", "l.json:1:1: expected JSON, got the end of the file"},
      {R"({"format": "fusewise.netlab", "version": 1, "bits_per_second": 1e9, "delay_us": 0, "keeper": 1,
           "keeper_started": 5, "namespaces": [3, 4]})",
       "l.json: /keeper: expected an integer from 2 to 1073741824, got 1"},
      {R"({"format": "fusewise.netlab", "version": 1, "bits_per_second": 1e9, "delay_us": 0, "keeper": 7,
           "keeper_started": 5, "namespaces": [3]})",
       "l.json: /namespaces: expected 2 to 64 descriptors, got an array of 1 item"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.text);
    std::string message;
    try {
      (void)netlab::read_lab(core::Field::parse(example.text, "l.json"));
    } catch (const core::InputError& error) {
      message = error.what();
    }
    CHECK(message == std::string(example.message));
  }
  CHECK(netlab::is_name("a-B_9"));
  for (const char* wrong : {"", "a/b", "..", "a b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    CHECK_FALSE(netlab::is_name(wrong));
}

}  // namespace
