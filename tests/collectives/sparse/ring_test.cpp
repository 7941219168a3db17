#include "collectives/sparse/ring.hpp"

#include <doctest/doctest.h>

#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/gradients.hpp"
#include "collectives/transport/bytes.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace {

using transport::Bytes;
using transport::Transport;

std::vector<float> input(std::size_t elements, std::uint32_t rank) {
  return sparse::gradient({.seed = 5}, elements, rank, 0);
}

/// Part p in the order of ranks p+1, p+2, ..., p.
std::vector<float> plain_ring_sum(std::size_t elements, std::uint32_t size) {
  std::vector<float> sum(elements);
  for (std::uint32_t part = 0; part < size; ++part)
    for (std::uint32_t step = 1; step <= size; ++step) {
      const std::vector<float> values = input(elements, (part + step) % size);
      for (std::size_t i = elements * part / size; i < elements * (part + 1) / size; ++i)
        sum[i] = step == 1 ? values[i] : sum[i] + values[i];
    }
  return sum;
}

TEST_CASE("ring: the all-reduce sums each part in the order of the ring, the same bytes on all ranks") {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 64U})
    for (const std::size_t elements : {0U, 1U, 5U, 64U, 1000U}) {
      CAPTURE(size);
      CAPTURE(elements);
      const auto ran = ranks::run(size, [&](Transport& t) {
        std::vector<float> values = input(elements, t.rank());
        sparse::ring_all_reduce(t, values);
        return values;
      });
      const std::vector<float> expected = plain_ring_sum(elements, size);
      const auto length = [&](std::size_t part) {
        return static_cast<std::int64_t>(elements * (part + 1) / size - elements * part / size);
      };
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        REQUIRE(ranks::same(ran.results[rank], expected));
        const std::int64_t words =
            2 * static_cast<std::int64_t>(elements) - length((rank + size - 1) % size) - length(rank);
        REQUIRE(ran.words_received(rank) == words);
        REQUIRE(ran.counts(rank, "").messages_sent == 2 * (size - 1));
      }
    }
}

TEST_CASE("ring: the reduce-scatter leaves a rank the sum of its own part") {
  const auto ran = ranks::run(4, [](Transport& t) {
    std::vector<float> values(6, static_cast<float>(t.rank() + 1));
    sparse::ring_reduce_scatter(t, values);
    return values;
  });
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (std::size_t i = rank * 6 / 4; i < (rank + 1) * 6 / 4; ++i) CHECK(ran.results[rank][i] == 10);
}

TEST_CASE("ring: integers are summed without loss") {
  const auto ran = ranks::run(3, [](Transport& t) {
    std::vector<std::uint64_t> values = {1, std::uint64_t{1} << 60U, t.rank()};
    sparse::ring_all_reduce(t, values);
    return values;
  });
  for (const auto& values : ran.results)
    CHECK(values == std::vector<std::uint64_t>{3, std::uint64_t{3} << 60U, 3});
}

TEST_CASE("ring: a sum of infinities of both signs is one NaN, whatever the machine") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(std::bit_cast<std::uint32_t>(sparse::sum_of(kInfinity, -kInfinity)) == 0x7fc00000U);
  CHECK(std::bit_cast<std::uint32_t>(sparse::sum_of(std::bit_cast<float>(0xffc12345U), 1.0F)) == 0x7fc00000U);
}

Bytes block_of(std::uint32_t rank) { return Bytes(rank * 3 % 5, std::byte(rank)); }

TEST_CASE("gather: every rank has what each gave, of any length, and receives nothing else") {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 16U, 64U}) {
    CAPTURE(size);
    std::vector<std::size_t> sizes;
    std::vector<Bytes> blocks;
    std::int64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      blocks.push_back(block_of(rank));
      sizes.push_back(blocks.back().size());
      bytes += static_cast<std::int64_t>(sizes.back());
    }
    const auto ring =
        ranks::run(size, [](Transport& t) { return sparse::all_gather(t, block_of(t.rank())); });
    const auto known = ranks::run(
        size, [&](Transport& t) { return sparse::all_gather_known(t, block_of(t.rank()), sizes); });
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      REQUIRE(ring.results[rank] == blocks);
      REQUIRE(known.results[rank] == blocks);
      const std::int64_t others = bytes - static_cast<std::int64_t>(sizes[rank]);
      REQUIRE(ring.counts(rank, "").bytes_received == others);
      REQUIRE(known.counts(rank, "").bytes_received == others);
      REQUIRE(ring.counts(rank, "").messages_sent == size - 1);
      REQUIRE(known.counts(rank, "").messages_sent == std::bit_width(size - 1));
    }
  }
}

TEST_CASE("gather: a word of each rank takes P-1 words") {
  const auto ran = ranks::run(7, [](Transport& t) { return sparse::all_gather_word(t, 10 * t.rank()); });
  for (std::size_t rank = 0; rank < 7; ++rank) {
    CHECK(ran.results[rank] == std::vector<std::uint32_t>{0, 10, 20, 30, 40, 50, 60});
    CHECK(ran.words_received(rank) == 6);
  }
}

TEST_CASE("gather: sizes that are not those of what is given are errors") {
  const auto gather = [](std::size_t of_0, std::size_t of_1) {
    transport::run_ranks(2, [&](Transport& t) {
      const std::vector<std::size_t> sizes = {t.rank() == 0 ? 4 : of_0, t.rank() == 0 ? of_1 : 4};
      sparse::all_gather_known(t, Bytes(4), sizes);
    });
  };
  CHECK_NOTHROW(gather(4, 4));
  CHECK_THROWS_AS(gather(3, 4), transport::TransportError);
  CHECK_THROWS_AS(
      transport::run_ranks(
          1, [](Transport& t) { sparse::all_gather_known(t, Bytes(4), std::vector<std::size_t>{3}); }),
      std::invalid_argument);
}

}  // namespace
