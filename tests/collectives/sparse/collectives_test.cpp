#include "collectives/sparse/collectives.hpp"

#include <algorithm>
#include <bit>

#include <doctest/doctest.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/gradients.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace {

using ranks::SparseVector;
using transport::Transport;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The selection of each rank from n elements.
struct Instance {
  std::uint32_t size;
  std::size_t elements;
  std::size_t k;
  std::vector<SparseVector> own = {};
};

Instance sampled(std::uint32_t size, std::size_t elements, std::size_t k, sparse::GradientSource source) {
  Instance instance{size, elements, k};
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    std::vector<float> x = sparse::gradient(source, elements, rank, 0);
    if (source.seed % 3 == 2 && elements > 9) {  // values that must not be hidden
      x[(rank + 1) % 4] = kNan;
      x[5] = rank % 2 == 0 ? kInfinity : -kInfinity;
      x[6 + rank % 3] = kInfinity;
    }
    instance.own.push_back(compression::top_k(x, k));
  }
  return instance;
}

std::vector<Instance> instances() {
  std::vector<Instance> all;
  std::uint64_t seed = 0;
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 64U})
    for (const auto& [elements, k] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
             {0, 0}, {0, 3}, {5, 2}, {5, 9}, {600, 0}, {600, 6}, {600, 150}, {600, 600}})
      for (const double common : {0.0, 0.7}) {
        const auto tails = seed % 2 == 0 ? sparse::Tails::gaussian : sparse::Tails::laplace;
        all.push_back(
            sampled(size, elements, k,
                    {.seed = seed++, .tails = tails, .layers = 5, .layer_sigma = 1, .common = common}));
      }
  return all;
}

SparseVector without_zeros(const SparseVector& x) {
  return ranks::keep_if(x, [&](std::size_t place) { return x.values[place] != 0; });
}

TEST_CASE("topk_a: the sum of all selections in the order of ranks, for exactly 2k(P-1) words") {
  for (const Instance& in : instances()) {
    CAPTURE(in.size);
    CAPTURE(in.elements);
    CAPTURE(in.k);
    const auto ran =
        ranks::run(in.size, [&](Transport& t) { return sparse::topk_a(t, in.own[t.rank()], in.elements); });
    const SparseVector expected = ranks::plain_sum(in.own);
    const auto kept = static_cast<std::int64_t>(std::min(in.k, in.elements));
    for (std::uint32_t rank = 0; rank < in.size; ++rank) {
      REQUIRE(ranks::same(ran.results[rank], expected));
      REQUIRE(ran.words_received(rank, "gather") == 2 * kept * (in.size - 1));
      REQUIRE(ran.words_received(rank) == 2 * kept * (in.size - 1));
      REQUIRE(ran.words_sent(rank) == 2 * kept * (in.size - 1));
    }
  }
}

TEST_CASE("topk_a: selections of different lengths travel as they are") {
  const std::vector<SparseVector> own = {{{1, 3}, {1, 2}}, {}, {{3}, {5}}};
  const auto ran = ranks::run(3, [&](Transport& t) { return sparse::topk_a(t, own[t.rank()], 4); });
  for (const SparseVector& sum : ran.results) CHECK(sum == SparseVector{{1, 3}, {1, 7}});
  CHECK(ran.words_received(0) == 2);
  CHECK(ran.words_received(1) == 6);
  CHECK(ran.words_received(2) == 4);
}

/// A control word, and all elements if more than 2/3 are nonzero, otherwise two words per element.
std::int64_t part_words(std::int64_t non_zeros, std::size_t elements) {
  return 1 + (3 * non_zeros > 2 * static_cast<std::int64_t>(elements) ? static_cast<std::int64_t>(elements)
                                                                      : 2 * non_zeros);
}

TEST_CASE("topk_dsa: the sum of all selections, and a part travels whole when 2/3 of it is not zero") {
  for (const Instance& in : instances()) {
    CAPTURE(in.size);
    CAPTURE(in.elements);
    CAPTURE(in.k);
    const auto ran =
        ranks::run(in.size, [&](Transport& t) { return sparse::topk_dsa(t, in.own[t.rank()], in.elements); });
    const SparseVector sum = without_zeros(ranks::plain_sum(in.own));
    std::vector<float> expected(in.elements);
    for (std::size_t i = 0; i < sum.indexes.size(); ++i) expected[sum.indexes[i]] = sum.values[i];
    const auto begin = [&](std::size_t part) { return in.elements * part / in.size; };
    for (std::uint32_t rank = 0; rank < in.size; ++rank) {
      REQUIRE(ranks::same(ran.results[rank].sum, expected));
      REQUIRE(ran.results[rank].non_zeros == sum.indexes.size());
      std::int64_t reduce = 0;
      std::int64_t gather = 0;
      for (std::uint32_t other = 0; other < in.size; ++other) {
        if (other == rank) continue;
        const auto within = [&](const SparseVector& x, std::uint32_t part) {
          const std::int64_t non_zeros =
              ranks::count(ranks::part(without_zeros(x), begin(part), begin(part + 1)));
          return part_words(non_zeros, begin(part + 1) - begin(part));
        };
        reduce += within(in.own[other], rank);
        gather += within(sum, other);
      }
      REQUIRE(ran.words_received(rank, "reduce") == reduce);
      REQUIRE(ran.words_received(rank, "gather") == gather);
    }
  }
}

TEST_CASE("topk_a, topk_dsa: gathered in rounds the sums are the same, in as many messages as papers count") {
  using sparse::Gathering;
  for (const Instance& in : instances()) {
    CAPTURE(in.size);
    CAPTURE(in.elements);
    CAPTURE(in.k);
    const auto a = ranks::run(in.size, [&](Transport& t) {
      return sparse::topk_a(t, in.own[t.rank()], in.elements, Gathering::rounds);
    });
    const auto dsa = ranks::run(in.size, [&](Transport& t) {
      return sparse::topk_dsa(t, in.own[t.rank()], in.elements, Gathering::rounds);
    });
    const auto ring =
        ranks::run(in.size, [&](Transport& t) { return sparse::topk_dsa(t, in.own[t.rank()], in.elements); });
    const SparseVector expected = ranks::plain_sum(in.own);
    const auto rounds = static_cast<std::int64_t>(std::bit_width(in.size - 1));
    for (std::uint32_t rank = 0; rank < in.size; ++rank) {
      REQUIRE(ranks::same(a.results[rank], expected));
      REQUIRE(a.counts(rank, "").messages_received == rounds);
      REQUIRE(a.words_received(rank) ==
              2 * static_cast<std::int64_t>(std::min(in.k, in.elements)) * (in.size - 1));
      REQUIRE(ranks::same(dsa.results[rank].sum, ring.results[rank].sum));
      REQUIRE(dsa.results[rank].non_zeros == ring.results[rank].non_zeros);
      REQUIRE(dsa.counts(rank, "").messages_received == in.size - 1 + 2 * rounds);
      REQUIRE(dsa.words_received(rank) == ring.words_received(rank) + in.size - 1);
    }
  }
}

TEST_CASE("topk_dsa: independent selections fill the sum in as probability has it") {
  struct Case {
    std::uint32_t size;
    double density;
    double expected;  // 1 - (1 - p)^P
  };
  for (const Case& c : {Case{16, 0.01, 0.149}, Case{32, 0.02, 0.476}}) {
    constexpr std::size_t kElements = 20000;
    const auto k = static_cast<std::size_t>(c.density * kElements);
    const Instance in = sampled(c.size, kElements, k, {.seed = 1, .common = 0});
    const auto ran =
        ranks::run(c.size, [&](Transport& t) { return sparse::topk_dsa(t, in.own[t.rank()], kElements); });
    const double fill_in = static_cast<double>(ran.results[0].non_zeros) / kElements;
    CHECK(fill_in == doctest::Approx(1 - std::pow(1 - c.density, c.size)).epsilon(0.01));
    CHECK(std::abs(fill_in - c.expected) < 0.005);
  }
}

TEST_CASE("topk_dsa: sums that are zero do not travel") {
  const std::vector<SparseVector> own = {{{0, 5}, {1, 3}}, {{0, 5}, {-1, 4}}};
  const auto ran = ranks::run(2, [&](Transport& t) { return sparse::topk_dsa(t, own[t.rank()], 8); });
  CHECK(ran.results[1].sum == std::vector<float>{0, 0, 0, 0, 0, 7, 0, 0});
  CHECK(ran.results[1].non_zeros == 1);
  CHECK(ran.words_received(1, "gather") == 1);
  CHECK(ran.words_received(0, "gather") == 3);
}

TEST_CASE("topk_dsa: between 4k(P-1)/P words where selections agree and (2k+n)(P-1)/P where they fill all") {
  constexpr std::uint32_t kRanks = 8;
  const Instance agree = sampled(kRanks, 800, 40, {.seed = 3, .common = 1});
  const auto min =
      ranks::run(kRanks, [&](Transport& t) { return sparse::topk_dsa(t, agree.own[t.rank()], 800); });
  std::int64_t sum = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) sum += min.words_received(rank);
  CHECK(sum == kRanks * (4 * 40 * 7 / 8 + 2 * 7));  // evenly over the ranks on average; 2(P-1) control words

  std::vector<SparseVector> apart(kRanks);  // rank r has the elements i with i % 8 == r
  for (std::uint32_t i = 0; i < 800; ++i) {
    apart[i % kRanks].indexes.push_back(i);
    apart[i % kRanks].values.push_back(1);
  }
  const auto max =
      ranks::run(kRanks, [&](Transport& t) { return sparse::topk_dsa(t, apart[t.rank()], 800); });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    CHECK(max.words_received(rank) <= (2 * 100 + 800) * 7 / 8 + 14 + 7);  // 100/8 in a part, rounded up
}

/// The tree as in the paper: pairs of neighbours, then pairs of pairs, ...; the lower rank is summed first.
SparseVector plain_gtopk(std::vector<SparseVector> selected, std::size_t k) {
  for (SparseVector& x : selected) x = ranks::plain_top(x, k);
  while (selected.size() > 1) {
    std::vector<SparseVector> merged;
    for (std::size_t i = 0; i < selected.size(); i += 2) {
      const std::size_t end = std::min(i + 2, selected.size());
      merged.push_back(ranks::plain_top(ranks::plain_sum(std::span(selected).subspan(i, end - i)), k));
    }
    selected = merged;
  }
  return selected.front();
}

void check_gtopk(sparse::Sending sending) {
  for (const Instance& in : instances()) {
    CAPTURE(in.size);
    CAPTURE(in.elements);
    CAPTURE(in.k);
    const auto ran = ranks::run(in.size, [&](Transport& t) {
      return sparse::gtopk(t, in.own[t.rank()], in.elements, in.k, sending);
    });
    const SparseVector expected = plain_gtopk(in.own, in.k);
    const bool asks = sending == sparse::Sending::when_asked;
    for (std::uint32_t rank = 0; rank < in.size; ++rank)
      REQUIRE(ran.counts(rank, "reduce/asked").messages_received == (asks && rank > 0 ? 1 : 0));
    const auto kept = static_cast<std::int64_t>(std::min(in.k, in.elements));
    const std::int64_t lg = std::bit_width(in.size - 1);
    for (std::uint32_t rank = 0; rank < in.size; ++rank) {
      REQUIRE(ranks::same(ran.results[rank].sum, expected));
      REQUIRE(ran.results[rank].contributed == ranks::common(in.own[rank], expected));
      REQUIRE(ran.words_received(rank) + ran.words_sent(rank) <= 4 * kept * lg);
      REQUIRE(ran.words_received(rank) <= std::max<std::int64_t>(1, lg) * 2 * kept);
    }
    REQUIRE(ran.words_received(0, "reduce") == 2 * kept * lg);
    REQUIRE(ran.words_sent(0, "broadcast") == 2 * kept * lg);
    REQUIRE(ran.words_received(0) + ran.words_sent(0) == 4 * kept * lg);
  }
}

TEST_CASE("gtopk: k of each merge go on, and rank 0 sends and receives 4k lg P words") {
  check_gtopk(sparse::Sending::at_once);
}

TEST_CASE("gtopk: the same where sums are asked for, a message without content each") {
  check_gtopk(sparse::Sending::when_asked);
}

TEST_CASE("collectives: a selection with indexes beyond the gradient is an error") {
  const SparseVector beyond = {{4}, {1}};
  CHECK_THROWS_AS(transport::run_ranks(2, [&](Transport& t) { sparse::topk_a(t, beyond, 4); }),
                  std::invalid_argument);
  CHECK_THROWS_AS(transport::run_ranks(2, [&](Transport& t) { sparse::topk_dsa(t, beyond, 4); }),
                  std::invalid_argument);
  CHECK_THROWS_AS(transport::run_ranks(2, [&](Transport& t) { sparse::gtopk(t, beyond, 4, 1); }),
                  std::invalid_argument);
}

}  // namespace
