#include "collectives/transport/tcp/tcp.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
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

/// Stops rank `who` when a rank says "ready", for this long, or for ever.
struct Stopper {
  std::uint32_t who;
  std::chrono::milliseconds length;
  std::function<void()> after = [] {};
  std::vector<pid_t> pids = {};

  transport::LaunchOptions options() {
    transport::LaunchOptions out;
    out.grace = 100ms;
    out.on_started = [this](const std::vector<pid_t>& started) { pids = started; };
    out.on_line = [this](std::uint32_t /*rank*/, std::string_view line) {
      if (line != "ready") return;
      ::kill(pids[who], SIGSTOP);
      if (length == 0ms) return;
      std::this_thread::sleep_until(transport::Clock::now() + length);
      ::kill(pids[who], SIGCONT);
      after();
    };
    return out;
  }
};

TEST_CASE("tcp: a rank that gets no processor is not lost as long as its host answers") {
  transport::TcpOptions options = patient();
  options.silence = 500ms;
  Stopper stopper = {.who = 1, .length = 2000ms};  // the kernel of its host answers four times as long
  check_all_good(processes::run(
      2,
      [](Tcp& end) {
        if (end.rank() == 1) (void)std::fputs("ready\n", stderr);
        for (int i = 0; i < 100; ++i) {
          end.send(1 - end.rank(), 1, {});
          (void)end.recv(1 - end.rank(), 1);
          std::this_thread::sleep_for(1ms);
        }
      },
      options, stopper.options()));
}

TEST_CASE("tcp: a rank that is stopped for ever is named at the deadline") {
  transport::TcpOptions options = patient();
  options.deadline = 300ms;
  Stopper stopper = {.who = 1, .length = 0ms};
  const auto ends = processes::run(
      2,
      [](Tcp& end) {
        if (end.rank() == 1) (void)std::fputs("ready\n", stderr);
        (void)end.recv(1 - end.rank(), 1);
      },
      options, stopper.options());
  CHECK(
      contains(ends[0].err, fmt::format("rank 0 has waited 0.3 s for a message (tag 1) from rank 1 (host {}, "
                                        "pid {})",
                                        transport::this_process().host, ends[1].pid)));
  CHECK(ends[1].was_ended);
  CHECK(no_child_left());
}

TEST_CASE("tcp: time in which the waiting rank itself gets no processor does not count") {
  transport::TcpOptions options = patient();
  options.deadline = 2000ms;
  int go[2];
  REQUIRE(::pipe(go) == 0);
  Stopper stopper = {.who = 0, .length = 3000ms, .after = [&] { (void)!::write(go[1], "x", 1); }};
  check_all_good(processes::run(
      2,
      [&](Tcp& end) {
        char each = 0;
        if (end.rank() == 0) (void)std::fputs("ready\n", stderr);
        if (end.rank() == 0) return (void)end.recv(1, 1);
        if (::read(go[0], &each, 1) == 1) end.send(0, 1, {});
      },
      options, stopper.options()));
  ::close(go[0]);
  ::close(go[1]);
}

/// The front of a message between ranks.
struct Front {
  std::uint32_t kind;
  std::uint32_t tag;
  std::uint64_t bytes;
};

void say(const transport::Descriptor& socket, const Front& front) {
  (void)write_all(socket, std::as_bytes(std::span(&front, 1)), transport::Clock::now() + 5s);
}

/// Runs rank 0, and rank 1 by hand; returns what rank 0 said on standard error.
std::string said_to(const std::function<void(const transport::Descriptor& socket)>& by_hand,
                    const std::function<void(Tcp& end)>& rank, const transport::TcpOptions& options) {
  transport::LocalJob job(2);
  const auto ends = transport::launch(2,
                                      [&](std::uint32_t number) {
                                        if (number == 0) {
                                          transport::run_rank(job.enter(0), options, rank);
                                          return 0;
                                        }
                                        const processes::ByHand other = processes::join_by_hand(job.enter(1));
                                        by_hand(other.socket);
                                        processes::wait_for_end(other.socket);
                                        return 0;
                                      },
                                      {.limit = 40s});
  CHECK_FALSE(ends[0].was_ended);
  return ends[0].err;
}

double seconds_since(std::chrono::steady_clock::time_point before) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

TEST_CASE("tcp: neither trickling bytes nor signs of life outlast the deadline") {
  transport::TcpOptions options = patient();
  options.deadline = 300ms;
  const auto before = std::chrono::steady_clock::now();
  const std::string trickled = said_to(
      [](const transport::Descriptor& socket) {
        say(socket, {.kind = 1, .tag = 7, .bytes = 1'000'000});
        const std::byte one{};
        while (::send(socket.get(), &one, 1, MSG_NOSIGNAL) == 1) std::this_thread::sleep_for(2ms);
      },
      [](Tcp& end) { (void)end.recv(1, 7); }, options);
  CHECK(contains(trickled, "rank 0 has waited 0.3 s for a message (tag 7) from rank 1 (host "));
  // A rank may report for ever that it gets no processor: the deadline becomes four times as long.
  const std::string delayed = said_to(
      [](const transport::Descriptor& socket) {
        const Front front = {.kind = 2, .tag = 100'000, .bytes = 0};
        while (::send(socket.get(), &front, sizeof front, MSG_NOSIGNAL) == sizeof front)
          std::this_thread::sleep_for(2ms);
      },
      [](Tcp& end) {
        const auto begun = std::chrono::steady_clock::now();
        try {
          (void)end.recv(1, 7);
        } catch (const TransportError&) {
          if (seconds_since(begun) < 1.15) throw std::runtime_error("too early");
          throw;
        }
      },
      options);
  CHECK(contains(delayed, "rank 0 has waited 0.3 s for a message (tag 7) from rank 1 (host "));
  CHECK(contains(delayed, ", and longer because ranks waited for a processor, "));
  CHECK(seconds_since(before) < 15);
}

/// Megabytes of memory that this process uses.
double megabytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0;
  double resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

TEST_CASE("tcp: a header makes no rank allocate what it announces") {
  transport::TcpOptions options = patient();
  options.deadline = 300ms;
  const double before = megabytes();
  const std::string said = said_to(
      [](const transport::Descriptor& socket) {
        say(socket, {.kind = 1, .tag = 7, .bytes = std::uint64_t{1} << 31});
      },
      [&](Tcp& end) {
        try {
          (void)end.recv(1, 7);
        } catch (const TransportError&) {
          if (megabytes() - before > 20) throw std::runtime_error("too much memory");
          throw;
        }
      },
      options);
  CHECK(contains(said, "rank 0 has waited 0.3 s for a message (tag 7) from rank 1 (host "));
  for (const Front& wrong :
       {Front{.kind = 0, .tag = 0, .bytes = 0}, Front{.kind = 5, .tag = 0, .bytes = 0},
        Front{.kind = 1, .tag = 7, .bytes = std::uint64_t{1} << 40}, Front{.kind = 2, .tag = 7, .bytes = 1},
        Front{.kind = 3, .tag = 0, .bytes = 1}, Front{.kind = 4, .tag = 0, .bytes = 1 << 20}}) {
    CAPTURE(wrong.kind);
    CHECK(contains(said_to([&](const transport::Descriptor& socket) { say(socket, wrong); },
                           [](Tcp& end) { (void)end.recv(1, 7); }, patient()),
                   "it sent an invalid message"));
  }
}

TEST_CASE("tcp: a message longer than what is expected is refused, a long one before it has arrived") {
  const auto run = [](std::size_t bytes, std::size_t max_bytes) {
    return processes::run(2, [&](Tcp& end) {
      if (end.rank() == 0) (void)end.recv(1, 7, max_bytes);
      if (end.rank() == 1) end.send(0, 7, Bytes(bytes));
      if (end.rank() == 1) (void)end.recv(0, 8);
    });
  };
  CHECK(contains(run(9, 8)[0].err, "a message of 9 bytes from rank 1 where at most 8 were expected"));
  CHECK(contains(run(3'000'000, 2'999'999)[0].err, " bytes"));
  const std::string early = said_to(
      [](const transport::Descriptor& socket) {
        pollfd one = {.fd = socket.get(), .events = POLLIN, .revents = 0};  // rank 0 waits by then
        (void)::poll(&one, 1, 5000);
        say(socket, {.kind = 1, .tag = 7, .bytes = 2'000'000});
      },
      [](Tcp& end) {
        end.send(1, 1, {});
        (void)end.recv(1, 7, 1'999'999);
      },
      patient());
  CHECK(contains(early, "it sent a message of 2000000 bytes (tag 7) where at most 1999999 were expected"));
  const std::string before = said_to(
      [](const transport::Descriptor& socket) {
        say(socket, {.kind = 1, .tag = 1, .bytes = 0});
        say(socket, {.kind = 1, .tag = 7, .bytes = 2'000'000});
      },
      [](Tcp& end) {
        (void)end.recv(1, 1);  // mostly the long message has begun by then
        (void)end.recv(1, 7, 1'999'999);
      },
      patient());
  CHECK(contains(before, "it sent a message of 2000000 bytes (tag 7) where at most 1999999 were expected"));
}

TEST_CASE("tcp: what nobody asks for waits with its sender, and is not lost") {
  constexpr std::uint32_t kMessages = 200;
  constexpr std::size_t kBytes = 1 << 20;
  const double before = megabytes();
  check_all_good(processes::run(2, [&](Tcp& end) {
    if (end.rank() == 1) {
      for (std::uint32_t i = 0; i < kMessages; ++i) end.send(0, 1, Bytes(kBytes, static_cast<std::byte>(i)));
      return (void)end.recv(0, 2);
    }
    const auto until = transport::Clock::now() + 10s;  // all that is held has arrived long before
    double held = 0;
    for (int same = 0; same < 20 && transport::Clock::now() < until;) {
      std::this_thread::sleep_for(10ms);
      same = std::exchange(held, megabytes() - before) == held && held > 60 ? same + 1 : 0;
    }
    if (held > 120)
      throw std::runtime_error(fmt::format("{} MB held of 200 that nobody has asked for", held));
    for (std::uint32_t i = 0; i < kMessages; ++i)
      if (end.recv(1, 1) != Bytes(kBytes, static_cast<std::byte>(i))) throw std::runtime_error("wrong bytes");
    end.send(1, 2, {});
  }));
}

TEST_CASE("tcp: a rank that sends without end instead of what is awaited is lost") {
  const auto ends = processes::run(2, [](Tcp& end) {
    if (end.rank() == 0) return (void)end.recv(1, 2, 0);
    for (std::uint32_t i = 0; i < 100; ++i) end.send(0, 1, Bytes(1 << 20));
    (void)end.recv(0, 1);
  });
  CHECK(contains(ends[0].err, "lost rank 1 (host "));
  CHECK(contains(ends[0].err, " bytes that nobody has asked for"));
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

}  // namespace
