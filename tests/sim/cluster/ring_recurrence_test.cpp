// The times of a ring that are worked out at once: the same as round by round.

#include "sim/cluster/ring_recurrence.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace cluster {
namespace {

using Times = std::vector<std::int64_t>;

Times at_once(const Times& message, std::uint32_t rounds, Times times) {
  advance_ring(message, rounds, times);
  return times;
}

Times round_by_round(const Times& message, std::uint32_t rounds, Times times) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const Times before = times;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const std::size_t previous = (i + times.size() - 1) % times.size();
      times[i] = std::max(before[i] + message[i], before[previous] + message[previous]);
    }
  }
  return times;
}

TEST_CASE("ring recurrence: three places, by hand") {
  // messages 2, 6, 2; place 2 starts at 1
  //   after round 1: 0: max(0 + 2, 1 + 2) = 3     1: max(0 + 6, 0 + 2) = 6      2: max(1 + 2, 0 + 6) = 6
  //   after round 2: 0: max(3 + 2, 6 + 2) = 8     1: max(6 + 6, 3 + 2) = 12     2: max(6 + 2, 6 + 6) = 12
  CHECK(at_once({2, 6, 2}, 2, {0, 0, 1}) == Times{8, 12, 12});
  CHECK(at_once({5}, 3, {1}) == Times{16});
  CHECK(at_once({5}, 0, {1}) == Times{1});
}

/// 0 to 2^bits - 1, for up to 60 bits.
std::int64_t random_bits(support::Random& random, unsigned bits) {
  const std::int64_t all = std::int64_t{random.below(1U << 30)} << 30 | random.below(1U << 30);
  return all >> (60 - bits);
}

/// Messages with an order along the ring, with many ties, or with none; up to 2^53.
Times random_messages(support::Random& random, std::size_t size) {
  Times out;
  const std::uint32_t kind = random.below(5);
  const unsigned bits = random.one_in(2) ? 4 : 53;
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const auto last = static_cast<std::int64_t>(size - 1);
    out.push_back(kind == 0   ? place
                  : kind == 1 ? last - place
                  : kind == 2 ? random.below(2)
                              : random_bits(random, bits));
  }
  return out;
}

TEST_CASE("ring recurrence: the same as round by round") {
  int past_the_whole_ring = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    const std::size_t size = 1 + random.below(random.one_in(10) ? 60 : 12);
    const auto rounds =
        static_cast<std::uint32_t>(size - 1 + random.below(static_cast<std::uint32_t>(size) + 3));
    past_the_whole_ring += rounds > size ? 1 : 0;
    const Times message = random_messages(random, size);
    Times starts;
    const unsigned bits = random.one_in(2) ? 4 : random.one_in(4) ? 59 : 5 * random.below(11);
    for (std::size_t i = 0; i < size; ++i) starts.push_back(random_bits(random, bits));
    REQUIRE(at_once(message, rounds, starts) == round_by_round(message, rounds, starts));
  }
  CHECK(past_the_whole_ring > 1000);
}

TEST_CASE("ring recurrence: the same as round by round on two thousand places") {
  for (std::uint32_t seed = 0; seed < support::seeds(8); ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    const std::size_t size = 2000 + random.below(100);
    const auto rounds = static_cast<std::uint32_t>(2 * (size - 1));
    Times message = random_messages(random, size);
    for (std::int64_t& each : message) each %= std::int64_t{1} << 45U;  // 4,000 of them fit
    Times starts;
    for (std::size_t i = 0; i < size; ++i) starts.push_back(random_bits(random, 50));
    REQUIRE(at_once(message, rounds, starts) == round_by_round(message, rounds, starts));
  }
}

}  // namespace
}  // namespace cluster
