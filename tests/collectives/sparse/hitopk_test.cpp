#include "collectives/sparse/hitopk.hpp"

#include <doctest/doctest.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/gradients.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace {

using ranks::SparseVector;
using transport::Transport;

std::vector<float> input(std::size_t elements, std::uint32_t rank) {
  return sparse::gradient({.seed = 8, .tails = sparse::Tails::laplace, .layers = 4}, elements, rank, 0);
}

/// The sum of shard `shard` over node `node`, in the order of the ring: the worker after the shard's first.
std::vector<float> plain_shard(std::size_t elements, std::uint32_t node, std::uint32_t shard,
                               std::uint32_t workers) {
  std::vector<float> sum;
  for (std::size_t i = elements * shard / workers; i < elements * (shard + 1) / workers; ++i) {
    for (std::uint32_t step = 1; step <= workers; ++step) {
      const float value = input(elements, node * workers + (shard + step) % workers)[i];
      if (step == 1)
        sum.push_back(value);
      else
        sum.back() += value;
    }
  }
  return sum;
}

TEST_CASE("hitopk: k of every shard of every node's sum, summed over nodes") {
  struct Shape {
    std::uint32_t nodes;
    std::uint32_t workers;
  };
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 4}, Shape{4, 1}, Shape{2, 2}, Shape{3, 5}, Shape{2, 8}})
    for (const auto& [elements, k] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
             {0, 2}, {3, 1}, {97, 4}, {97, 0}, {97, 99}}) {
      CAPTURE(shape.nodes);
      CAPTURE(shape.workers);
      const auto& the_elements = elements;  // clang 14 cannot capture a structured binding
      CAPTURE(the_elements);
      const auto& the_k = k;  // clang 14 cannot capture a structured binding
      CAPTURE(the_k);
      const std::uint32_t size = shape.nodes * shape.workers;
      const auto ran = ranks::run(size, [&, elements = elements, k = k](Transport& t) {
        return sparse::hitopk(t, input(elements, t.rank()), shape.workers,
                              [&](std::span<const float> shard) { return compression::top_k(shard, k); });
      });
      SparseVector expected;
      std::vector<std::int64_t> shard_counts;
      for (std::uint32_t shard = 0; shard < shape.workers; ++shard) {
        std::vector<SparseVector> selected;
        for (std::uint32_t node = 0; node < shape.nodes; ++node) {
          const std::vector<float> values = plain_shard(elements, node, shard, shape.workers);
          selected.push_back(ranks::plain_top(ranks::all_of(values), k));
          std::vector<float> rest = values;
          for (std::uint32_t& index : selected.back().indexes) {
            rest[index] = 0;
            index += static_cast<std::uint32_t>(elements * shard / shape.workers);
          }
          const sparse::HiTopK& result = ran.results[node * shape.workers + shard];
          REQUIRE(ranks::same(result.rest, rest));
          REQUIRE(result.shard.begin == elements * shard / shape.workers);
          REQUIRE(result.shard.size() == rest.size());
          REQUIRE(ran.words_received(node * shape.workers + shard, "between") ==
                  2 * ranks::count(selected.back()) * (shape.nodes - 1));
        }
        const SparseVector sum = ranks::plain_sum(selected);
        shard_counts.push_back(ranks::count(sum));
        expected.indexes.insert(expected.indexes.end(), sum.indexes.begin(), sum.indexes.end());
        expected.values.insert(expected.values.end(), sum.values.begin(), sum.values.end());
      }
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const std::uint32_t worker = rank % shape.workers;
        REQUIRE(ranks::same(ran.results[rank].sum, expected));
        REQUIRE(ran.words_received(rank, "inside") == 2 * (ranks::count(expected) - shard_counts[worker]));
        const std::size_t before = (worker + shape.workers - 1) % shape.workers;
        REQUIRE(ran.words_received(rank, "reduce-scatter") ==
                static_cast<std::int64_t>(elements - (elements * (before + 1) / shape.workers -
                                                      elements * before / shape.workers)));
      }
    }
}

TEST_CASE("hitopk: where nothing limits memory, the selections of five nodes travel all at once") {
  const auto ran = ranks::run(5, [&](Transport& t) {
    return sparse::hitopk(t, input(1000, t.rank()), 1,
                          [&](std::span<const float> shard) { return compression::top_k(shard, 10); });
  });
  // one at a time, two ranks would wait for messages that confirm others
  for (std::size_t rank = 0; rank < 5; ++rank) CHECK(ran.counts(rank, "").messages_received == 4);
}

TEST_CASE("hitopk: full nodes and a selection of the shard, or an error") {
  const auto run = [](std::uint32_t workers, SparseVector selected) {
    transport::run_ranks(4, [&](Transport& t) {
      sparse::hitopk(t, input(10, t.rank()), workers, [&](std::span<const float>) { return selected; });
    });
  };
  CHECK_NOTHROW(run(2, {{4}, {1}}));
  CHECK_THROWS_AS(run(2, {{5}, {1}}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(run(3, {}), "hitopk: 4 ranks are not full nodes of 3", std::invalid_argument);
  CHECK_THROWS_AS(run(0, {}), std::invalid_argument);
}

}  // namespace
