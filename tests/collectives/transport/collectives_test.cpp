#include "collectives/transport/collectives.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "tests/collectives/sparse/ranks.hpp"
#include "tests/collectives/transport/ranks.hpp"

namespace {

using transport::Transport;

/// The initial values of a rank: their sums are exact in any order.
std::vector<float> whole_numbers(std::uint32_t rank, std::size_t count) {
  std::mt19937 random(rank + 1);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  return out;
}

std::vector<float> serial_sum(std::uint32_t size, std::size_t count) {
  std::vector<float> sum(count);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const std::vector<float> own = whole_numbers(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += own[i];
  }
  return sum;
}

std::vector<float> run_one(const cluster::PatternEntry& entry, Transport& end, std::vector<float> values) {
  const cluster::Collective collective = entry.make(
      {.ranks = end.size(), .bytes = static_cast<std::int64_t>(values.size()), .ranks_per_node = 2});
  transport::run_collective(end, collective, values, 5);
  return values;
}

void check(const cluster::PatternEntry& entry, const std::vector<std::vector<float>>& results) {
  const auto size = static_cast<std::uint32_t>(results.size());
  const std::size_t count = results[0].size();
  const std::vector<float> sum = serial_sum(size, count);
  const std::vector<float> roots = whole_numbers(0, count);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CAPTURE(rank);
    const std::vector<float> given = whole_numbers(rank, count);
    const cluster::Stretch own =
        cluster::part_of({.begin = 0, .end = static_cast<std::int64_t>(count)}, size, rank);
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_own = static_cast<std::int64_t>(i) >= own.begin && static_cast<std::int64_t>(i) < own.end;
      switch (entry.outcome) {
        case cluster::Outcome::all_reduce: REQUIRE(results[rank][i] == sum[i]); break;
        case cluster::Outcome::reduce_scatter:
          if (is_own) REQUIRE(results[rank][i] == sum[i]);
          break;
        case cluster::Outcome::all_gather:
          for (std::uint32_t other = 0; other < size && is_own; ++other)
            REQUIRE(results[other][i] == given[i]);
          break;
        case cluster::Outcome::broadcast: REQUIRE(results[rank][i] == roots[i]); break;
      }
    }
  }
}

TEST_CASE("collectives: every pattern of the simulator ends as it says, between threads") {
  for (const cluster::PatternEntry& entry : cluster::patterns())
    for (const std::uint32_t size : {1U, 2U, 3U, 4U, 5U, 8U})
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
        CAPTURE(entry.name);
        CAPTURE(size);
        CAPTURE(count);
        check(entry, ranks::run(size, [&](Transport& end) {
                       return run_one(entry, end, whole_numbers(end.rank(), count));
                     }).results);
      }
}

TEST_CASE("collectives: an all-reduce leaves the same bytes on every rank, NaN and infinity included") {
  for (const cluster::PatternEntry& entry : cluster::patterns()) {
    if (entry.outcome != cluster::Outcome::all_reduce) continue;
    CAPTURE(entry.name);
    for (const std::uint32_t size : {2U, 3U, 4U, 6U}) {
      const auto own = [](std::uint32_t rank) {
        std::mt19937 random(rank + 100);
        std::normal_distribution<float> normal;
        std::vector<float> out(501);
        for (float& value : out) value = normal(random);
        out[3 + rank] = std::numeric_limits<float>::quiet_NaN();
        out[20] =
            rank % 2 == 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
        return out;
      };
      const auto ran = ranks::run(size, [&](Transport& end) { return run_one(entry, end, own(end.rank())); });
      for (std::uint32_t rank = 1; rank < size; ++rank)
        REQUIRE(ranks::same(ran.results[rank], ran.results[0]));
      std::vector<std::vector<float>> owns;
      for (std::uint32_t rank = 0; rank < size; ++rank) owns.push_back(own(rank));
      for (std::size_t i = 30; i < 501; ++i) {
        double sum = 0;
        for (const std::vector<float>& each : owns) sum += static_cast<double>(each[i]);
        REQUIRE(static_cast<double>(ran.results[0][i]) == doctest::Approx(sum).epsilon(1e-5));
      }
      CHECK(std::isnan(ran.results[0][4]));
    }
  }
}

TEST_CASE("collectives: each rank sends the messages that the simulator counts, without their padding") {
  for (const cluster::PatternEntry& entry : cluster::patterns()) {
    const cluster::Collective collective = entry.make({.ranks = 6, .bytes = 100, .ranks_per_node = 3});
    const auto* pattern = std::get_if<std::unique_ptr<const cluster::BytePattern>>(&collective);
    if (pattern == nullptr) continue;
    CAPTURE(entry.name);
    const auto ran = ranks::run(6, [&](Transport& end) {
      std::vector<float> values(100);
      transport::run_collective(end, collective, values, 1);
      return values;
    });
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      transport::Counts counted;
      for (std::uint32_t round = 0; round < (*pattern)->rounds(); ++round) {
        const cluster::Move move = (*pattern)->move(rank, round);
        if (move.to != cluster::Exchange::kNobody)
          counted += {.messages_sent = 1, .bytes_sent = 4 * move.out.size()};
        if (move.from != cluster::Exchange::kNobody)
          counted +=
              {.messages_received = 1, .bytes_received = 4 * (*pattern)->move(move.from, round).out.size()};
      }
      CHECK(ran.counts(rank, "") == counted);
    }
  }
}

TEST_CASE("collectives: trees in pieces of any length give the same sums") {
  for (const std::size_t piece : {1U, 2U, 7U, 1000U})
    for (const std::uint32_t size : {2U, 3U, 7U}) {
      const auto ran = ranks::run(size, [&](Transport& end) {
        std::vector<float> values = whole_numbers(end.rank(), 50);
        transport::run_trees(end, cluster::DoubleBinaryTree(size, 50), values, 1, piece);
        return values;
      });
      for (const auto& result : ran.results) REQUIRE(result == serial_sum(size, 50));
    }
}

TEST_CASE("collectives: values go round to the next rank, and a barrier waits for the last") {
  const auto ran = ranks::run(3, [](Transport& end) {
    std::vector<float> values = whole_numbers(end.rank(), 9);
    transport::send_receive(end, values, 1);
    transport::barrier(end, 2);
    return values;
  });
  for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(ran.results[rank] == whole_numbers((rank + 2) % 3, 9));
}

TEST_CASE("collectives: a collective of another size is refused") {
  transport::run_ranks(2, [](Transport& end) {
    std::vector<float> values(5);
    const cluster::Collective collective = cluster::find_pattern("ring")->make({.ranks = 2, .bytes = 6});
    CHECK_THROWS_AS(transport::run_collective(end, collective, values, 1), std::invalid_argument);
  });
}

TEST_CASE("collectives: over TCP as between threads") {
  for (const std::uint32_t size : {2U, 3U, 4U}) {
    CAPTURE(size);
    const auto ends = processes::run(size, [](transport::Tcp& end) {
      for (const cluster::PatternEntry& entry : cluster::patterns()) {
        const std::vector<float> result = run_one(entry, end, whole_numbers(end.rank(), 20'000));
        if (entry.outcome == cluster::Outcome::all_reduce && result != serial_sum(end.size(), 20'000))
          throw std::runtime_error("wrong sum of " + std::string(entry.name));
      }
    });
    CHECK(transport::failures(ends) == "");
  }
}

}  // namespace
