#include "collectives/sparse/wire.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "tests/collectives/sparse/ranks.hpp"

namespace {

using sparse::Range;
using sparse::SparseVector;
using transport::TransportError;

const SparseVector kFour = {{1, 4, 6, 9}, {-1, 4, -6, 4}};

TEST_CASE("wire: a sparse vector takes 8 bytes per element and comes back") {
  CHECK(sparse::encode(kFour).size() == 32);
  CHECK(sparse::decode(sparse::encode(kFour), {1, 10}) == kFour);
  CHECK(sparse::decode(sparse::encode(kFour, 1, 2), {4, 7}) == SparseVector{{4, 6}, {4, -6}});
  CHECK(sparse::encode(SparseVector{}).empty());
  CHECK(sparse::decode({}, {3, 3}) == SparseVector{});
}

TEST_CASE("wire: what is not a sparse vector of the range is an error") {
  CHECK_THROWS_AS(sparse::decode(transport::Bytes(12), {0, 9}), TransportError);
  CHECK_THROWS_AS(sparse::decode(sparse::encode(kFour), {2, 10}), TransportError);
  CHECK_THROWS_AS(sparse::decode(sparse::encode(kFour), {1, 9}), TransportError);
  CHECK_THROWS_AS(sparse::decode(sparse::encode({{2, 2}, {1, 1}}), {0, 9}), TransportError);
  CHECK_THROWS_AS(sparse::check_sparse(kFour, 9, "it"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(sparse::check_sparse({{1}, {}}, 9, "it"), "it: not a sparse vector of 9 elements",
                       std::invalid_argument);
}

TEST_CASE("wire: pieces and selections") {
  CHECK(sparse::places_in(kFour, {4, 9}) == Range{1, 3});
  CHECK(sparse::places_in(kFour, {7, 7}) == Range{3, 3});
  CHECK(sparse::slice(kFour, {1, 3}) == SparseVector{{4, 6}, {4, -6}});
  CHECK(sparse::top_of(kFour, 2) == SparseVector{{4, 6}, {4, -6}});
  CHECK(sparse::top_of(kFour, 9) == kFour);
}

TEST_CASE("wire: sums are in the order of what is added, and a sum of zero stays") {
  sparse::Accumulator sum({100, 300});
  // (1e8 + 1) - 1e8 is 0 in float32, (1e8 - 1e8) + 1 is 1
  sum.add({{100, 299}, {1e8F, 2}});
  sum.add({{100, 170}, {1, -0.0F}});
  sum.add({{100, 299}, {-1e8F, -2}});
  CHECK(sum.count() == 3);
  CHECK(ranks::same(sum.take(), {{100, 170, 299}, {0, -0.0F, 0}}));
}

TEST_CASE("wire: sums of random vectors are those of a map") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::vector<SparseVector> vectors;
    sparse::Accumulator sum({0, 200});
    for (std::uint32_t i = 0; i < 5; ++i) {
      std::vector<float> values;
      for (std::uint32_t j = 0; j < 200; ++j)
        values.push_back(static_cast<float>((seed * 31 + i * 17 + j * j * 7) % 23) - 11);
      vectors.push_back(ranks::plain_top(ranks::all_of(values), 20 + seed));
      sum.add(vectors.back());
    }
    REQUIRE(ranks::same(sum.take(), ranks::plain_sum(vectors)));
  }
}

}  // namespace
