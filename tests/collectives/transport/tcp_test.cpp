#include "collectives/transport/tcp/tcp.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gradients.hpp"
#include "collectives/transport/bytes.hpp"
#include "collectives/transport/tcp/pacer.hpp"
#include "tests/collectives/sparse/ranks.hpp"
#include "tests/collectives/transport/ranks.hpp"

namespace {

using namespace std::chrono_literals;
using processes::no_child_left;
using processes::patient;
using transport::Bytes;
using transport::RankEnd;
using transport::Tcp;
using transport::TransportError;

Bytes bytes_of(const std::string& text) { return transport::to_bytes(std::span<const char>(text)); }
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_all_good(const std::vector<RankEnd>& ends) {
  CHECK(transport::failures(ends) == "");
  for (const RankEnd& end : ends) CHECK(end.exit_code == 0);
  CHECK(no_child_left());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("tcp: messages of a sender and tag come in order, of others in any, from nothing to megabytes") {
  for (const std::uint32_t size : {2U, 3U, 4U}) {
    CAPTURE(size);
    check_all_good(processes::run(size, [](Tcp& end) {
      const std::uint32_t next = (end.rank() + 1) % end.size();
      const std::uint32_t before = (end.rank() + end.size() - 1) % end.size();
      end.send(next, 1, bytes_of("a"));
      end.send(next, 2, bytes_of("b"));
      end.send(next, 1, {});
      end.send(next, 1, Bytes(3'000'000, std::byte{7}));
      if (text_of(end.recv(before, 2)) != "b") throw TransportError("not b");
      if (text_of(end.recv(before, 1)) != "a") throw TransportError("not a");
      if (!end.recv(before, 1).empty()) throw TransportError("not empty");
      if (end.recv(before, 1) != Bytes(3'000'000, std::byte{7})) throw TransportError("not all of it");
    }));
  }
}

TEST_CASE("tcp: one rank alone needs nobody") {
  Tcp alone({.rank = 0, .size = 1});
  CHECK(alone.size() == 1);
  CHECK_THROWS_AS(alone.send(0, 1, {}), std::invalid_argument);
  CHECK_THROWS_AS(alone.recv(1, 1), std::invalid_argument);
  alone.leave();
}

TEST_CASE("tcp: sparse collectives run as they do between threads, to the bit") {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::size_t kElements = 3000;
  const auto own = [](std::uint32_t rank) {
    const sparse::GradientSource source = {.seed = 5, .layers = 3, .common = 0.5};
    return compression::top_k(sparse::gradient(source, kElements, rank, 0), 40);
  };
  const auto all = [&](transport::Transport& end) {
    const ranks::SparseVector gathered = sparse::topk_a(end, own(end.rank()), kElements);
    const sparse::DsaSum summed = sparse::topk_dsa(end, own(end.rank()), kElements);
    const sparse::Selected selected = sparse::gtopk(end, own(end.rank()), kElements, 40);
    std::string out;
    for (const auto& values : {gathered.values, summed.sum, selected.sum.values})
      for (const std::uint32_t word : ranks::bits(values)) out += fmt::format("{:x} ", word);
    return out;
  };
  const auto threads = ranks::run(kRanks, all);
  const auto ends = processes::run(kRanks, [&](Tcp& end) { std::fputs(all(end).c_str(), stdout); });
  check_all_good(ends);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) CHECK(ends[rank].out == threads.results[rank]);
}

TEST_CASE("tcp: a killed rank is named, with host and process, by all others, which all end") {
  std::vector<pid_t> pids;
  transport::LaunchOptions launch;
  launch.on_started = [&](const std::vector<pid_t>& started) { pids = started; };
  launch.on_line = [&](std::uint32_t rank, std::string_view line) {
    if (rank == 2 && line == "ready") ::kill(pids[2], SIGKILL);
  };
  const auto before = std::chrono::steady_clock::now();
  const auto ends = processes::run(
      4,
      [](Tcp& end) {
        if (end.rank() == 2) (void)std::fputs("ready\n", stderr);
        (void)end.recv(end.rank() == 3 ? 0 : 3, 1);  // 0 and 1 wait for a rank that lives
      },
      patient(), launch);
  CHECK(std::chrono::steady_clock::now() - before < 10s);
  CHECK(ends[2].signal == SIGKILL);
  const std::string who = transport::name(2, {.host = transport::this_process().host, .pid = ends[2].pid});
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    CHECK(ends[rank].exit_code == 1);
    CHECK_FALSE(ends[rank].was_ended);
    CHECK(contains(ends[rank].err, fmt::format("rank {}: lost {}: ", rank, who)));
  }
  CHECK(contains(transport::failures(ends),
                 fmt::format("rank 2 (pid {}) was killed by signal 9", ends[2].pid)));
  CHECK(no_child_left());
}

TEST_CASE("tcp: a stopped rank is found by its silence") {
  std::vector<pid_t> pids;
  transport::LaunchOptions launch;
  launch.grace = 100ms;
  launch.on_started = [&](const std::vector<pid_t>& started) { pids = started; };
  launch.on_line = [&](std::uint32_t rank, std::string_view line) {
    if (rank == 1 && line == "ready") ::kill(pids[1], SIGSTOP);
  };
  transport::TcpOptions options = patient();
  options.silence = 800ms;
  const auto ends = processes::run(
      2,
      [](Tcp& end) {
        if (end.rank() == 1) (void)std::fputs("ready\n", stderr);
        (void)end.recv(1 - end.rank(), 1);
      },
      options, launch);
  CHECK(contains(ends[0].err, fmt::format("lost rank 1 (host {}, pid {}): no heartbeat for 0.8 s",
                                          transport::this_process().host, ends[1].pid)));
  CHECK(ends[1].was_ended);
  CHECK(no_child_left());
}

// All three stop for longer than the silence limit. Two continue and exchange messages, and only then the
// third.
TEST_CASE("tcp: ranks that are stopped together do not blame each other when they go on") {
  using transport::Clock;
  constexpr auto kSilence = 2400ms;
  std::vector<pid_t> pids;
  std::size_t talked = 0;
  transport::LaunchOptions launch;
  launch.on_started = [&](const std::vector<pid_t>& started) { pids = started; };
  launch.on_line = [&](std::uint32_t /*rank*/, std::string_view line) {
    if (line == "ready") {
      for (const pid_t pid : pids) ::kill(pid, SIGSTOP);
      std::this_thread::sleep_until(Clock::now() + kSilence * 9 / 8);
      for (const pid_t pid : {pids[0], pids[1]}) ::kill(pid, SIGCONT);
    } else if (line == "talked" && ++talked == 2) {
      ::kill(pids[2], SIGCONT);
    }
  };
  transport::TcpOptions options = patient();
  options.silence = kSilence;
  check_all_good(processes::run(
      3,
      [&](Tcp& end) {
        const auto exchange = [&](std::uint32_t ranks, std::uint32_t tag) {
          for (std::uint32_t other = 0; other < ranks; ++other)
            if (other != end.rank()) end.send(other, tag, {});
          for (std::uint32_t other = 0; other < ranks; ++other)
            if (other != end.rank()) (void)end.recv(other, tag);
        };
        auto before = Clock::now();  // the stop may come while the ranks still greet each other
        exchange(3, 1);
        if (end.rank() == 0) (void)std::fputs("ready\n", stderr);
        for (auto now = Clock::now(); now - before < kSilence; now = Clock::now()) {
          before = now;
          end.check();
          std::this_thread::sleep_for(1ms);
        }
        if (end.rank() < 2) {
          exchange(2, 2);
          (void)std::fputs("talked\n", stderr);
        }
        exchange(3, 3);
      },
      options, launch));
  CHECK(talked == 2);
}

TEST_CASE("tcp: what one rank throws the others learn, also those that wait for another") {
  const auto ends = processes::run(3, [](Tcp& end) {
    if (end.rank() == 1) throw std::runtime_error("wrong sum");
    (void)end.recv(2 - end.rank(), 1);
  });
  CHECK(ends[1].err == "wrong sum\n");
  for (const std::uint32_t rank : {0U, 2U})
    CHECK(ends[rank].err == fmt::format("rank {}: rank 1 (host {}, pid {}) has failed: wrong sum\n", rank,
                                        transport::this_process().host, ends[1].pid));
}

TEST_CASE("tcp: no receive outlasts its deadline, and none waits for one that has left") {
  transport::TcpOptions options = patient();
  options.deadline = 50ms;
  const auto late = processes::run(
      2,
      [](Tcp& end) {
        if (end.rank() == 0) (void)end.recv(1, 7);
        for (;;) {
          end.check();
          std::this_thread::sleep_for(1ms);
        }
      },
      options);
  CHECK(contains(late[0].err, "rank 0 has waited 0.05 s for a message (tag 7) from rank 1 (host "));
  CHECK(contains(late[1].err, "rank 1: rank 0 (host "));

  const auto left = processes::run(2, [](Tcp& end) {
    if (end.rank() == 0) (void)end.recv(1, 7);
  });
  CHECK(left[1].exit_code == 0);
  CHECK(contains(left[0].err, "rank 0 waits for a message (tag 7) from rank 1 (host "));
  CHECK(contains(left[0].err, "), which has left"));
}

TEST_CASE("tcp: a message that nobody reads is an error") {
  const auto ends = processes::run(2, [](Tcp& end) {
    if (end.rank() == 1) end.send(0, 1, bytes_of("unread"));
    end.send(1 - end.rank(), 2, {});
    (void)end.recv(1 - end.rank(), 2);
  });
  CHECK(ends[0].err == "rank 0 leaves a message of 6 bytes (tag 1) from rank 1 unread\n");
}

TEST_CASE("tcp: a paced rank keeps to its rate") {
  transport::TcpOptions options = patient();
  options.bytes_per_second = 4e6;
  const auto ends = processes::run(
      2,
      [](Tcp& end) {
        const auto before = std::chrono::steady_clock::now();
        if (end.rank() == 1) {
          (void)end.recv(0, 1);
          return end.send(0, 2, {});
        }
        end.send(1, 1, Bytes(400'000));
        (void)end.recv(1, 2);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
        if (took < 0.099s) throw TransportError(fmt::format("400 kB at 4 MB/s in {} s", took.count()));
      },
      options);
  check_all_good(ends);
}

TEST_CASE("tcp: a rank whose bytes wait behind another's on a slow link is not taken for lost") {
  transport::TcpOptions options = patient();
  options.bytes_per_second = 50e3;
  options.silence = 500ms;
  const auto ends = processes::run(
      3,
      [](Tcp& end) {
        if (end.rank() == 0) {
          end.send(1, 1, Bytes(75'000));
          end.send(2, 1, Bytes(1));
        } else {
          (void)end.recv(0, 1);
        }
      },
      options);
  check_all_good(ends);
}

TEST_CASE(
    "pacer: bytes leave when the link has carried them, lateness is caught up with, idleness no credit") {
  transport::Pacer pacer(1e6);
  const transport::Clock::time_point zero = transport::Clock::now();
  CHECK(pacer.piece() == 1024);
  CHECK(pacer.passes(zero, 1000) == zero + 1ms);
  pacer.pass(pacer.passes(zero, 1000));
  CHECK(pacer.passes(zero, 500) == zero + 1500us);        // there since zero: follows
  CHECK(pacer.passes(zero + 5ms, 500) == zero + 5500us);  // comes later: the link has idled
}

// Errors before they are ranks of one job.

TEST_CASE("meeting: a wrong size, rank, version or job is refused on every rank, by name") {
  struct Example {
    transport::Membership other;
    std::uint32_t version;
    const char* why;
  };
  const Example examples[] = {
      {{.rank = 1, .size = 3, .job = "test"}, transport::kTcpVersion, " is one of 3, and rank 0 one of 2"},
      {{.rank = 0, .size = 2, .job = "test"}, transport::kTcpVersion, " are the same rank"},
      {{.rank = 1, .size = 2, .job = "test"}, 99, " speaks version 99 of the protocol, and rank 0 version 1"},
      {{.rank = 1, .size = 2, .job = "other"}, transport::kTcpVersion, " is of another job"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.why);
    const processes::Meeting meeting;
    const auto ends = transport::launch(
        2,
        [&](std::uint32_t process) {
          transport::Membership membership = process == 0 ? meeting.of(0, 2) : example.other;
          transport::TcpOptions options = patient();
          if (process == 1) {
            membership.master = meeting.address;
            options.version = example.version;
            if (membership.rank == 0) {  // a second process with rank 0 would listen there
              const transport::Descriptor socket = connect_to(meeting.address, transport::Clock::now() + 5s);
              const transport::Handshake handshake = {
                  .rank = 0, .size = 2, .job = "test", .process = transport::this_process(), .listens = {}};
              const auto deadline = transport::Clock::now() + 5s;
              send_packed(socket, packed(handshake), deadline);
              const auto answer = transport::unpacked_answer(receive_packed(socket, deadline).value());
              throw TransportError(std::get<transport::Rejection>(answer.value()).why);
            }
          }
          const Tcp end(membership, options);
          return 0;
        },
        {.limit = 30s});
    for (const RankEnd& end : ends) {
      CHECK(end.exit_code == 1);
      CHECK(contains(end.err, example.why));
      CHECK(contains(end.err, fmt::format("pid {}", ends[1].pid)));
    }
  }
}

TEST_CASE("meeting: two processes with one rank are refused") {
  const processes::Meeting meeting;
  const auto ends = transport::launch(3,
                                      [&](std::uint32_t process) {
                                        const Tcp end(meeting.of(process == 0 ? 0 : 1, 3), patient());
                                        return 0;
                                      },
                                      {.limit = 30s});
  CHECK(contains(ends[0].err, "rank 1 (host "));
  for (const RankEnd& end : ends) CHECK(contains(end.err, " are the same rank"));
}

TEST_CASE("meeting: who does not come is named at the deadline, and a refused connection says where") {
  transport::TcpOptions options = patient();
  options.meeting = 60ms;
  const processes::Meeting meeting;
  const auto ends = transport::launch(1,
                                      [&](std::uint32_t /*rank*/) {
                                        const Tcp end(meeting.of(0, 3), options);
                                        return 0;
                                      },
                                      {.limit = 30s});
  CHECK(ends[0].err == "rank 0 has timed out waiting for ranks 1, 2 of 3\n");

  transport::Address nowhere;
  {
    const processes::Meeting gone;
    nowhere = gone.address;
  }
  CHECK_THROWS_WITH_AS(Tcp({.rank = 1, .size = 2, .master = nowhere}, options),
                       (text(nowhere) + ": cannot connect: Connection refused").c_str(), TransportError);
}

TEST_CASE("meeting: nobody is taken for lost while others still meet") {
  transport::TcpOptions options = patient();
  options.silence = 80ms;
  const processes::Meeting meeting;
  const auto ends = transport::launch(
      3,
      [&](std::uint32_t process) {
        if (process < 2) {
          transport::run_rank(meeting.of(process, 3), options, [](Tcp& end) { (void)end.recv(2, 1); });
          return 0;
        }
        const auto deadline = transport::Clock::now() + 5s;
        const transport::Descriptor socket = connect_to(meeting.address, deadline);
        const transport::Handshake handshake = {
            .rank = 2, .size = 3, .job = "test", .process = transport::this_process(), .listens = {}};
        (void)send_packed(socket, packed(handshake), deadline);
        (void)receive_packed(socket, deadline);
        // Does not connect to rank 1, and receives twice as many heartbeats of rank 0 as make a silence.
        std::array<std::byte, 16 * 8 * 2> heartbeats{};
        return read_all(socket, heartbeats, deadline) ? 0 : 1;
      },
      {.limit = 30s, .grace = 100ms});
  CHECK(ends[2].exit_code == 0);
  CHECK(contains(ends[0].err, "lost rank 2 (host "));
  CHECK_FALSE(contains(ends[0].err, "no heartbeat"));
}

TEST_CASE("meeting: a port in use is said") {
  const processes::Meeting taken;
  CHECK_THROWS_WITH_AS(Tcp({.rank = 0, .size = 2, .master = taken.address}, patient()),
                       (text(taken.address) + ": cannot listen: Address already in use").c_str(),
                       TransportError);
}

TEST_CASE("meeting: strangers are let go, whatever they say") {
  const processes::Meeting meeting;
  int said[2];  // the strangers write to it when they have sent everything
  REQUIRE(::pipe(said) == 0);
  const auto ends = transport::launch(
      3,
      [&](std::uint32_t process) {
        if (process == 2) {
          for (const std::string& noise :
               {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(), std::string(64, '\xff')}) {
            const transport::Descriptor socket = connect_to(meeting.address, transport::Clock::now() + 5s);
            (void)write_all(socket, bytes_of(noise), transport::Clock::now() + 5s);
          }
          return ::write(said[1], "x", 1) == 1 ? 0 : 1;
        }
        char each = 0;
        if (process == 1 && ::read(said[0], &each, 1) != 1) return 1;
        transport::run_rank(meeting.of(process, 2), patient(), [](Tcp& end) {
          end.send(1 - end.rank(), 1, {});
          (void)end.recv(1 - end.rank(), 1);
        });
        return 0;
      },
      {.limit = 30s});
  ::close(said[0]);
  ::close(said[1]);
  for (const RankEnd& end : ends) CHECK(end.exit_code == 0);
  CHECK(ends[0].err == "");
  CHECK(ends[1].err == "");
}

TEST_CASE("hello: what was packed is unpacked, and anything shorter or longer is not taken") {
  const transport::Handshake handshake = {.rank = 3,
                                          .size = 4,
                                          .job = "j",
                                          .process = {.host = "h", .pid = 77},
                                          .listens = {.host = "10.0.0.1", .port = 5}};
  Bytes bytes = packed(handshake);
  CHECK(transport::unpacked_handshake(bytes) == handshake);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(transport::unpacked_handshake(std::span(bytes).first(size)));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(transport::unpacked_handshake(bytes));
  const transport::Answer roster = transport::Roster{handshake, handshake};
  CHECK(transport::unpacked_answer(packed(roster)) == roster);
  const transport::Answer refusal = transport::Rejection{.why = "no"};
  CHECK(transport::unpacked_answer(packed(refusal)) == refusal);
  Bytes many = packed(roster);
  many[0] = std::byte{3};
  CHECK_FALSE(transport::unpacked_answer(many));
}

TEST_CASE("address: host and port, and nothing else") {
  CHECK(transport::parse_address("h:1") == transport::Address{.host = "h", .port = 1});
  CHECK(transport::parse_address("[::1]:80") == transport::Address{.host = "::1", .port = 80});
  CHECK(text(transport::Address{.host = "::1", .port = 80}) == "[::1]:80");
  for (const char* wrong : {"", "h", "h:", ":1", "h:0", "h:65536", "h:1x", "h:-1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(transport::parse_address(wrong));
  }
}

}  // namespace
