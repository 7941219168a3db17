// How processes meet before they are ranks of one job, and who is not let in.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/tcp/door.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "tests/collectives/transport/ranks.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/sanitized.hpp"

namespace {

using namespace std::chrono_literals;
using processes::join_by_hand;
using processes::patient;
using processes::wait_for_end;
using transport::Bytes;
using transport::Clock;
using transport::Descriptor;
using transport::Handshake;
using transport::LocalJob;
using transport::Membership;
using transport::RankEnd;
using transport::read_hello;
using transport::Tcp;
using transport::TransportError;

Bytes bytes_of(const std::string& text) { return transport::to_bytes(std::span<const char>(text)); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("meeting: a wrong size or rank of a process of the job is refused on every rank, by name") {
  struct Example {
    std::uint32_t rank;
    std::uint32_t size;
    const char* why;
  };
  const Example examples[] = {{1, 3, " is one of 3, and rank 0 one of 2"},
                              {7, 2, " is not a rank below 2"},
                              {0, 2, " are the same rank"}};
  for (const Example& example : examples) {
    CAPTURE(example.why);
    LocalJob job(2);
    const auto ends =
        transport::launch(2,
                          [&](std::uint32_t process) {
                            Membership own = job.enter(process);
                            if (process == 0) {
                              const Tcp end(own, patient());
                              return 0;
                            }
                            own.rank = example.rank;
                            own.size = example.size;
                            const auto answer = join_by_hand(own).answer;
                            throw TransportError(std::get<transport::Rejection>(answer.value()).why);
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
  LocalJob job(3);
  const auto ends = transport::launch(3,
                                      [&](std::uint32_t process) {
                                        const Tcp end(job.enter(std::min(process, 1U)), patient());
                                        return 0;
                                      },
                                      {.limit = 30s});
  CHECK(contains(ends[0].err, "rank 1 (host "));
  for (const RankEnd& end : ends) CHECK(contains(end.err, " are the same rank"));
}

TEST_CASE("meeting: who does not come is named at the deadline, and a refused connection says where") {
  transport::TcpOptions options = patient();
  options.meeting = 60ms;
  LocalJob job(3);
  const auto ends = transport::launch(1,
                                      [&](std::uint32_t /*rank*/) {
                                        const Tcp end(job.enter(0), options);
                                        return 0;
                                      },
                                      {.limit = 30s});
  CHECK(ends[0].err == "rank 0 has timed out waiting for ranks 1, 2 of 3\n");

  const transport::Address nowhere = LocalJob(2).master();
  CHECK_THROWS_WITH_AS(Tcp({.rank = 1, .size = 2, .master = nowhere, .secret = "of this test"}, options),
                       (text(nowhere) + ": cannot connect: Connection refused").c_str(), TransportError);
}

TEST_CASE("meeting: a port in use is said, and no process listens on all interfaces") {
  const LocalJob taken(2);
  const auto of_rank_0 = [](const transport::Address& master) {
    return Membership{.rank = 0, .size = 2, .master = master, .secret = "of this test"};
  };
  CHECK_THROWS_WITH_AS(Tcp(of_rank_0(taken.master()), patient()),
                       (text(taken.master()) + ": cannot listen: Address already in use").c_str(),
                       TransportError);
  for (const char* host : {"0.0.0.0", "0", "::", "::ffff:0.0.0.0"}) {
    CAPTURE(host);
    const transport::Address everywhere = {.host = host, .port = 29999};
    CHECK_THROWS_WITH_AS(
        Tcp(of_rank_0(everywhere), patient()),
        (text(everywhere) + ": expected the address of one interface, got that of all").c_str(),
        TransportError);
  }
}

TEST_CASE("meeting: processes without a secret do not meet") {
  CHECK_THROWS_AS(Tcp({.rank = 0, .size = 2, .master = {.host = "127.0.0.1", .port = 29999}}, patient()),
                  std::invalid_argument);
}

Bytes framed(std::uint64_t size, const Bytes& bytes) {
  Bytes out = bytes_of("fusewise");
  const Bytes length = transport::to_bytes(std::span<const std::uint64_t>(&size, 1));
  out.insert(out.end(), length.begin(), length.end());
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

/// Runs a job of two ranks. Once `strangers` has returned, rank 1 comes. Returns how both ranks end: rank 0
/// prints what it says of strangers, and has no more than this number of descriptors.
std::vector<RankEnd> meet_beside(const std::function<void(const Membership& job)>& strangers,
                                 rlim_t descriptors = RLIM_INFINITY) {
  LocalJob job(2);
  int said[2];
  REQUIRE(::pipe(said) == 0);
  auto ends = transport::launch(3,
                                [&](std::uint32_t process) {
                                  char each = 0;
                                  if (process == 2) {
                                    strangers(job.enter(1));
                                    return 0;
                                  }
                                  if (process == 1 && ::read(said[0], &each, 1) != 1) return 1;
                                  rlimit open{};
                                  if (process == 0 && ::getrlimit(RLIMIT_NOFILE, &open) == 0) {
                                    open.rlim_cur = std::min(open.rlim_cur, descriptors);
                                    if (::setrlimit(RLIMIT_NOFILE, &open) != 0) return 1;
                                  }
                                  transport::run_rank(job.enter(process), patient(), [&](Tcp& end) {
                                    end.send(1 - end.rank(), 1, {});
                                    (void)end.recv(1 - end.rank(), 1);
                                    std::fputs(end.strangers().c_str(), stdout);
                                  });
                                  return 0;
                                },
                                {.limit = 40s, .on_line = [&](std::uint32_t process, std::string_view line) {
                                   if (process == 2 && line == "done") (void)!::write(said[1], "x", 1);
                                 }});
  ::close(said[0]);
  ::close(said[1]);
  for (const RankEnd& end : ends) CHECK(end.exit_code == 0);
  CHECK(ends[0].err == "");
  CHECK(ends[1].err == "");
  return ends;
}

/// To be called by strangers: rank 1 comes now.
void let_rank_1_come() { (void)std::fputs("done\n", stderr); }

TEST_CASE("meeting: strangers are dropped, counted and named, and the run goes on") {
  const auto ends = meet_beside([](const Membership& own) {
    std::vector<Descriptor> open;  // those that rank 0 drops only at the end
    const auto connect = [&] { return connect_to(own.master, Clock::now() + 5s); };
    const auto say = [&](const Bytes& bytes) {
      const Descriptor socket = connect();
      (void)write_all(socket, bytes, Clock::now() + 5s);
      wait_for_end(socket);
    };
    say(bytes_of("GET / HTTP/1.0\r\n\r\n"));
    say(framed(std::uint64_t{1} << 22, {}));
    say(framed(4, transport::to_bytes(std::vector<std::uint32_t>{1})));   // speaks version 1
    say(framed(4, transport::to_bytes(std::vector<std::uint32_t>{99})));  // and 99
    Membership other = own;
    other.job = "another";
    const auto refused = join_by_hand(other).answer;
    if (std::get<transport::Rejection>(refused.value()).why != "this process is of another job")
      throw std::runtime_error("not told why");
    other = own;
    other.secret = "a secret of somebody else";
    if (join_by_hand(other).answer) throw std::runtime_error("proved with another secret");
    say(framed(4, transport::to_bytes(std::vector<std::uint32_t>{transport::kTcpVersion})));
    (void)connect();  // closes it again
    for (int i = 0; i < 17; ++i) open.push_back(connect());
    open.push_back(connect());
    (void)write_all(open.back(), framed(100, {}), Clock::now() + 5s);  // half a hello
    let_rank_1_come();
    for (const Descriptor& socket : open) wait_for_end(socket);
  });
  CAPTURE(ends[0].out);
  CHECK(contains(ends[0].out, "26 connections of strangers were dropped: 127.0.0.1:"));
  for (const char* why : {"(sent something else than a handshake)", "(announced more than a handshake)",
                          "(speaks version 1 of the protocol instead of 2)",
                          "(speaks version 99 of the protocol instead of 2)", "(is of another job), ..."})
    CHECK(contains(ends[0].out, why));
}

TEST_CASE("meeting: more connections than may wait do not keep a rank out") {
  const auto ends = meet_beside([](const Membership& own) {
    std::vector<Descriptor> idle;
    for (int i = 0; i < 400; ++i) idle.push_back(connect_to(own.master, Clock::now() + 5s));
    let_rank_1_come();
    for (const Descriptor& socket : idle) wait_for_end(socket);
  });
  CAPTURE(ends[0].out);
  CHECK(contains(ends[0].out, "400 connections of strangers were dropped"));
}

std::string no_descriptors_to_spare() {
  return support::kSanitized ? "a sanitizer takes descriptors itself" : "";
}

TEST_CASE("meeting: connections that use up the descriptors of rank 0 give way" *
          support::needs(no_descriptors_to_spare)) {
  constexpr rlim_t kDescriptors = 48;
  const auto ends = meet_beside(
      [](const Membership& own) {
        std::vector<Descriptor> idle;
        for (int i = 0; i < 72; ++i) idle.push_back(connect_to(own.master, Clock::now() + 5s));
        let_rank_1_come();
        for (const Descriptor& socket : idle) wait_for_end(socket);
      },
      kDescriptors);
  CAPTURE(ends[0].out);
  CHECK(contains(ends[0].out, "72 connections of strangers were dropped"));
}

TEST_CASE("meeting: a process with other settings is told, and does not end rank 0's run") {
  for (const bool is_other_version : {true, false}) {
    CAPTURE(is_other_version);
    const auto ends = meet_beside([&](const Membership& own) {
      Membership wrong = own;
      transport::TcpOptions options = patient();
      if (is_other_version) options.version = 99;
      if (!is_other_version) wrong.secret = "a secret of somebody else";
      std::string said;
      try {
        const Tcp end(wrong, options);
      } catch (const TransportError& error) {
        said = error.what();
      }
      const std::string where = fmt::format("rank 0 at {}", text(own.master));
      const std::string expected =
          is_other_version ? fmt::format(" speaks version 99 of the protocol, and {} version 2", where)
                           : fmt::format(": {} does not prove that it knows the same secret", where);
      if (!contains(said, expected)) throw std::runtime_error(said);
      let_rank_1_come();
    });
    CHECK(contains(ends[0].out, "a connection of strangers was dropped: 127.0.0.1:"));
  }
}

TEST_CASE("meeting: strangers are named beside the ranks that are missing") {
  transport::TcpOptions options = patient();
  options.meeting = 300ms;
  LocalJob job(2);
  const auto ends = transport::launch(2,
                                      [&](std::uint32_t process) {
                                        if (process == 0) {
                                          const Tcp end(job.enter(0), options);
                                          return 0;
                                        }
                                        wait_for_end(connect_to(job.master(), Clock::now() + 5s));
                                        return 0;
                                      },
                                      {.limit = 30s});
  CHECK(contains(ends[0].err,
                 "rank 0 has timed out waiting for rank 1 of 2; a connection of strangers was dropped: "
                 "127.0.0.1:"));
  CHECK(contains(ends[0].err, " (did not prove anything)\n"));
}

TEST_CASE("meeting: no rank gives away its address to a process that listens in place of rank 0") {
  const Descriptor listener = transport::listen_on({.host = "127.0.0.1", .port = 0});
  const Membership own = {.rank = 1,
                          .size = 2,
                          .master = transport::local_address(listener),
                          .job = "test",
                          .secret = "the secret of this job"};
  const auto ends = transport::launch(
      2,
      [&](std::uint32_t process) {
        if (process == 1) {
          const Tcp end(own, patient());
          return 0;
        }
        const Handshake impostor = {.rank = 0, .size = 2, .job = "test", .process = {}, .listens = {}};
        const std::string guessed = "not the secret of this job";
        transport::Door door(listener, impostor, guessed);
        return door.next(Clock::now() + 500ms) ? 1 : 0;
      },
      {.limit = 30s});
  CHECK(ends[0].exit_code == 0);
  CHECK(contains(ends[1].err,
                 fmt::format("rank 0 at {} does not prove that it knows the same secret", text(own.master))));
}

const Handshake kHandshake = {.rank = 3,
                              .size = 4,
                              .job = "j",
                              .process = {.host = "h", .pid = 77},
                              .listens = {.host = "10.0.0.1", .port = 5}};

TEST_CASE("handshake: what was packed is unpacked, and anything shorter or longer is not taken") {
  Bytes bytes = packed(kHandshake);
  CHECK(transport::unpacked_handshake(bytes) == kHandshake);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(transport::unpacked_handshake(std::span(bytes).first(size)));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(transport::unpacked_handshake(bytes));
  const transport::Answer roster = transport::Roster{kHandshake, kHandshake};
  CHECK(transport::unpacked_answer(packed(roster)) == roster);
  const transport::Answer refusal = transport::Rejection{.why = "no"};
  CHECK(transport::unpacked_answer(packed(refusal)) == refusal);
  Bytes many = packed(roster);
  many[0] = std::byte{3};
  CHECK_FALSE(transport::unpacked_answer(many));
  const transport::Challenge challenge = {.nonce = transport::random_nonce()};
  const Bytes asked = packed(challenge);
  CHECK(transport::unpacked_challenge(asked) == challenge);
  for (std::size_t size = 0; size < asked.size(); ++size)
    CHECK_FALSE(transport::unpacked_challenge(std::span(asked).first(size)));
}

TEST_CASE("hello: it is proved by the secret, for one challenge, and unchanged") {
  const std::string secret = transport::random_secret();
  const transport::Nonces nonces = {.acceptor = transport::random_nonce(),
                                    .connector = transport::random_nonce()};
  const Bytes hello = pack_hello(kHandshake, secret, nonces);
  CHECK(read_hello(hello, secret, nonces.acceptor).handshake == kHandshake);
  CHECK_FALSE(read_hello(hello, transport::random_secret(), nonces.acceptor).handshake);
  CHECK_FALSE(read_hello(hello, secret, transport::random_nonce()).handshake);  // it was recorded before
  for (std::size_t i = 0; i < hello.size(); ++i) {
    Bytes changed = hello;
    changed[i] ^= std::byte{1};
    CHECK_FALSE(read_hello(changed, secret, nonces.acceptor).handshake);
    CHECK_FALSE(read_hello(std::span(hello).first(i), secret, nonces.acceptor).handshake);
  }
  // What one side says cannot be sent back to it as the other's.
  const Bytes answer = sealed(packed(kHandshake), secret, transport::Side::acceptor, nonces);
  CHECK(opened(answer, secret, transport::Side::acceptor, nonces));
  CHECK_FALSE(opened(answer, secret, transport::Side::connector, nonces));
}

TEST_CASE("proof: it is the HMAC-SHA-256 of RFC 4231's kind") {
  // Python: hmac.new(b"key", b"\x02" + bytes(64) + b"message", "sha256").hexdigest()
  const transport::Proof proof = transport::prove("key", transport::Side::connector, {}, bytes_of("message"));
  std::string hex;
  for (const std::byte each : proof) hex += fmt::format("{:02x}", static_cast<unsigned>(each));
  CHECK(hex == "6c1cad1204c509b5065e44c24f8c4f1f2ec209a13d0df6849ea899d5840d51c8");
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
