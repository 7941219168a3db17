#include "collectives/transport/in_process.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/group.hpp"

namespace {

using transport::Bytes;
using transport::Counted;
using transport::Counts;
using transport::Group;
using transport::Phase;
using transport::run_ranks;
using transport::Transport;
using transport::TransportError;

Bytes message(std::uint32_t word) { return transport::to_bytes(std::vector<std::uint32_t>{word}); }

std::uint32_t word_of(const Bytes& bytes) {
  std::uint32_t word = 0;
  transport::from_bytes(bytes, std::span(&word, 1));
  return word;
}

TEST_CASE("transport: messages with one sender and tag arrive in order, tags tell others apart") {
  std::vector<std::uint32_t> heard;
  run_ranks(2, [&](Transport& t) {
    if (t.rank() == 0) {
      for (const std::uint32_t word : {1U, 2U, 3U}) t.send(1, 7, message(word));
      t.send(1, 8, message(4));
      return;
    }
    heard.push_back(word_of(t.recv(0, 8)));
    for (int i = 0; i < 3; ++i) heard.push_back(word_of(t.recv(0, 7)));
  });
  CHECK(heard == std::vector<std::uint32_t>{4, 1, 2, 3});
}

TEST_CASE("transport: ranks that all send before they receive do not block each other") {
  constexpr std::uint32_t kRanks = 64;
  std::vector<std::uint32_t> sums(kRanks);
  run_ranks(kRanks, [&](Transport& t) {
    for (std::uint32_t to = 0; to < t.size(); ++to)
      if (to != t.rank()) t.send(to, 0, message(t.rank()));
    for (std::uint32_t from = t.size(); from-- > 0;)
      if (from != t.rank()) sums[t.rank()] += word_of(t.recv(from, 0));
  });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) CHECK(sums[rank] == kRanks * (kRanks - 1) / 2 - rank);
}

TEST_CASE("transport: what a rank throws reaches the caller, and ranks that wait for others leave too") {
  std::atomic<int> unblocked = 0;
  const auto run = [&] {
    run_ranks(5, [&](Transport& t) {
      if (t.rank() == 3) throw std::domain_error("rank 3 is broken");
      if (t.rank() == 4) {  // awake until all others have heard of it
        while (unblocked < 3) std::this_thread::yield();
        return;
      }
      try {  // 0 waits for 1 waits for 2 waits for 0: nobody waits for the one that fails
        t.recv((t.rank() + 1) % 3, 0);
      } catch (const TransportError&) {
        ++unblocked;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH_AS(run(), "rank 3 is broken", std::domain_error);
  CHECK(unblocked == 3);
}

TEST_CASE("transport: to wait for a rank that has left is an error that names both") {
  CHECK_THROWS_WITH_AS(run_ranks(3,
                                 [](Transport& t) {
                                   if (t.rank() == 2) t.recv(1, 5);
                                 }),
                       "rank 2 waits for a message (tag 5) from rank 1, which has left", TransportError);
}

TEST_CASE("transport: what was sent by a rank before it left can still be received") {
  std::uint32_t heard = 0;
  std::atomic<bool> left = false;
  run_ranks(2, [&](Transport& t) {
    if (t.rank() == 0) {
      t.send(1, 0, message(9));
      left = true;
      return;
    }
    while (!left) std::this_thread::yield();
    heard = word_of(t.recv(0, 0));
  });
  CHECK(heard == 9);
}

TEST_CASE("transport: ranks that all wait for each other end with an error") {
  std::string what;
  try {
    run_ranks(3, [](Transport& t) { t.recv((t.rank() + 1) % 3, 1); });
  } catch (const TransportError& error) {
    what = error.what();
  }
  CHECK(what.find("and no other rank is awake to send one") != std::string::npos);
}

TEST_CASE("transport: ranks that all wait when the last other one leaves end with an error") {
  CHECK_THROWS_AS(run_ranks(3,
                            [](Transport& t) {
                              if (t.rank() != 2) t.recv(1 - t.rank(), 1);
                            }),
                  TransportError);
}

TEST_CASE("transport: a message that nobody reads is an error") {
  CHECK_THROWS_WITH_AS(run_ranks(2,
                                 [](Transport& t) {
                                   if (t.rank() == 0) t.send(1, 3, message(0));
                                 }),
                       "rank 1 left a message of 4 bytes (tag 3) from rank 0 unread", TransportError);
}

TEST_CASE("transport: no rank talks to itself or to one that does not exist") {
  for (const std::uint32_t other : {0U, 2U}) {
    const auto sends = [&](Transport& t) {
      if (t.rank() == 0) t.send(other, 0, {});
    };
    const auto receives = [&](Transport& t) {
      if (t.rank() == 0) t.recv(other, 0);
    };
    CHECK_THROWS_AS(run_ranks(2, sends), std::invalid_argument);
    CHECK_THROWS_AS(run_ranks(2, receives), std::invalid_argument);
  }
  CHECK_THROWS_AS(run_ranks(0, [](Transport&) {}), std::invalid_argument);
}

TEST_CASE("transport: counts go to the innermost phase, named with those around it") {
  std::vector<std::map<std::string, Counts, std::less<>>> phases(2);
  std::vector<Counts> totals(2);
  run_ranks(2, [&](Transport& end) {
    Counted t(end);
    const std::uint32_t other = 1 - t.rank();
    send_recv(t, other, message(1), other, 0);
    {
      const Phase outer(t, "outer");
      if (t.rank() == 0) t.send(1, 0, Bytes(10));
      if (t.rank() == 1) t.recv(0, 0);
      {
        const Phase inner(t, "inner");
        send_recv(t, other, Bytes(t.rank()), other, 0);
      }
      send_recv(t, other, Bytes(100), other, 0);
    }
    send_recv(t, other, {}, other, 0);
    phases[t.rank()] = t.phases();
    totals[t.rank()] = t.total();
    CHECK(t.phase("never") == Counts{});
  });
  CHECK(phases[0].at("") == Counts{2, 4, 2, 4});
  CHECK(phases[0].at("outer") == Counts{2, 110, 1, 100});
  CHECK(phases[1].at("outer") == Counts{1, 100, 2, 110});
  CHECK(phases[0].at("outer/inner") == Counts{1, 0, 1, 1});
  CHECK(totals[0] == Counts{5, 114, 4, 105});
  CHECK(totals[1] == Counts{4, 105, 5, 114});
}

TEST_CASE("transport: a group numbers its members anew and passes phases on") {
  std::vector<std::uint32_t> heard(5);
  std::vector<Counts> counts(5);
  run_ranks(5, [&](Transport& end) {
    if (end.rank() % 2 == 1) return;
    Counted all(end);
    Group even(all, {4, 0, 2});
    const Phase phase(even, "even");
    const std::uint32_t next = (even.rank() + 1) % 3;
    heard[all.rank()] = word_of(send_recv(even, next, message(all.rank()), (even.rank() + 2) % 3, 0));
    counts[all.rank()] = all.phase("even");
  });
  CHECK(heard == std::vector<std::uint32_t>{4, 0, 0, 0, 2});
  CHECK(counts[4] == Counts{1, 4, 1, 4});
}

TEST_CASE("transport: a group consists of different ranks that exist and of the rank that makes it") {
  const auto group_of = [](std::vector<std::uint32_t> members) {
    run_ranks(3, [&](Transport& t) {
      if (t.rank() == 0) Group(t, members);
    });
  };
  CHECK_NOTHROW(group_of({2, 0}));
  CHECK_THROWS_AS(group_of({1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(group_of({0, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(group_of({0, 3}), std::invalid_argument);
  CHECK_THROWS_AS(group_of({}), std::invalid_argument);
}

TEST_CASE("transport: numbers are read only from a message that has as many") {
  std::vector<float> values(2);
  CHECK_THROWS_WITH_AS(transport::from_bytes(Bytes(7), std::span(values)),
                       "a message of 7 bytes where 8 were expected", TransportError);
}

}  // namespace
