// Patterns: run with real numbers, their messages leave every rank with the right sums.

#include "sim/cluster/patterns.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/cluster/patterns/rings.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using Numbers = std::vector<std::int64_t>;  // one for each byte of a message
using Ranks = std::vector<std::uint32_t>;

const BytePattern& rounds_of(const Collective& how) {
  return *std::get<std::unique_ptr<const BytePattern>>(how);
}

Collective make(std::string_view name, const Shape& shape) { return find_pattern(name)->make(shape); }

/// 1 to 17, 32 and 64 ranks.
Ranks rank_counts() {
  Ranks out(17);
  std::iota(out.begin(), out.end(), 1U);
  out.insert(out.end(), {32, 64});
  return out;
}

/// Different numbers for each rank and byte.
std::vector<Numbers> random_numbers(const Shape& shape) {
  support::Random random(shape.ranks);
  std::vector<Numbers> out(shape.ranks, Numbers(static_cast<std::size_t>(shape.bytes)));
  for (Numbers& of_rank : out)
    for (std::int64_t& number : of_rank) number = random.between(0, 1'000'000);
  return out;
}

Numbers sum_of(const std::vector<Numbers>& held) {
  Numbers out(held.front().size());
  for (const Numbers& of_rank : held)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += of_rank[i];
  return out;
}

/// Copies the data of `from` to the positions of `to`.
void deliver(const Numbers& from, Numbers& to, const Stretch& stretch, bool sums) {
  for (auto i = static_cast<std::size_t>(stretch.begin); i < static_cast<std::size_t>(stretch.end); ++i)
    to[i] = (sums ? to[i] : 0) + from[i];
}

void run(const BytePattern& pattern, std::vector<Numbers>& held) {
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    const std::vector<Numbers> before = held;
    for (std::uint32_t rank = 0; rank < pattern.ranks(); ++rank) {
      const Move own = pattern.move(rank, round);
      if (own.from == Exchange::kNobody) continue;
      deliver(before[own.from], held[rank], pattern.move(own.from, round).out, own.sums);
    }
  }
}

void run(const DoubleBinaryTree& trees, std::vector<Numbers>& held) {
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const Tree& edges = trees.trees()[tree];
    for (auto rank = edges.order.rbegin(); rank != edges.order.rend(); ++rank)
      if (const std::uint32_t parent = edges.parent[*rank]; parent != Tree::kRoot)
        deliver(held[*rank], held[parent], trees.half(tree), true);
    for (const std::uint32_t rank : edges.order)
      if (const std::uint32_t parent = edges.parent[rank]; parent != Tree::kRoot)
        deliver(held[parent], held[rank], trees.half(tree), false);
  }
}

void run(const Collective& how, std::vector<Numbers>& held) {
  std::visit(
      [&](const auto& which) {
        if constexpr (requires { *which; })
          run(*which, held);
        else
          run(which, held);
      },
      how);
}

Stretch own_part(const Shape& shape, std::uint32_t rank) {
  return part_of({.begin = 0, .end = shape.bytes}, shape.ranks, rank);
}

/// Keeps only the part with which a rank begins in an all-gather.
void forget_other_parts(const Shape& shape, std::vector<Numbers>& held) {
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const Stretch own = own_part(shape, rank);
    for (std::int64_t i = 0; i < shape.bytes; ++i)
      if (i < own.begin || i >= own.end) held[rank][static_cast<std::size_t>(i)] = 0;
  }
}

void check_outcome(const PatternEntry& entry, const Shape& shape) {
  std::vector<Numbers> held = random_numbers(shape);
  if (entry.outcome == Outcome::all_gather) forget_other_parts(shape, held);
  const Numbers expected = entry.outcome == Outcome::broadcast ? held.front() : sum_of(held);
  run(entry.make(shape), held);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    CAPTURE(rank);
    const bool is_part = entry.outcome == Outcome::reduce_scatter;
    const Stretch here = is_part ? own_part(shape, rank) : Stretch{.begin = 0, .end = shape.bytes};
    const auto same = [&](const Numbers& of) {
      return Numbers(of.begin() + here.begin, of.begin() + here.end);
    };
    CHECK(same(held[rank]) == same(expected));
  }
}

TEST_CASE("patterns: each leaves every rank with what it promises, run with real numbers") {
  for (const PatternEntry& entry : patterns())
    for (const std::uint32_t ranks : rank_counts())
      for (const std::int64_t bytes : {0, 1, 37, 128})
        for (const std::uint32_t per_node : {1U, 2U, 3U, 4U, 8U, 100U}) {
          if (per_node > 1 && entry.name != "two_level" && entry.name != "torus") continue;
          CAPTURE(entry.name);
          CAPTURE(ranks);
          CAPTURE(bytes);
          CAPTURE(per_node);
          check_outcome(entry, {.ranks = ranks, .bytes = bytes, .ranks_per_node = per_node});
        }
}

/// Checks that sender and receiver of every message agree about it.
void check_exchanges(const BytePattern& pattern) {
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round)
    for (std::uint32_t rank = 0; rank < pattern.ranks(); ++rank) {
      const Exchange own = pattern.exchange(rank, round);
      if (own.to != Exchange::kNobody) {
        REQUIRE(own.to < pattern.ranks());
        CHECK(own.to != rank);
        const Exchange other = pattern.exchange(own.to, round);
        CHECK(other.from == rank);
        CHECK(other.bytes_in == own.bytes_out);
        const Move move = pattern.move(rank, round);
        CHECK(own.bytes_out == move.out.size() + move.padding);
        CHECK((move.padding == 0 || move.padding == 1));
      } else {
        CHECK(own.bytes_out == 0);
      }
      if (own.from != Exchange::kNobody) {
        REQUIRE(own.from < pattern.ranks());
        CHECK(pattern.exchange(own.from, round).to == rank);
      } else {
        CHECK(own.bytes_in == 0);
        CHECK_FALSE(own.sums);
      }
    }
}

TEST_CASE("patterns: who sends and who receives agree, on any number of ranks") {
  for (const PatternEntry& entry : patterns())
    for (const std::uint32_t ranks : rank_counts()) {
      const Collective how = entry.make({.ranks = ranks, .bytes = 41, .ranks_per_node = 4});
      CAPTURE(entry.name);
      CAPTURE(ranks);
      if (std::holds_alternative<DoubleBinaryTree>(how)) continue;
      CHECK(rounds_of(how).ranks() == ranks);
      CHECK(rounds_of(how).bytes() == 41);
      check_exchanges(rounds_of(how));
    }
}

TEST_CASE("patterns: have as many rounds as their startup has alphas") {
  struct Case {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t rounds;
  };
  for (const Case& of :
       {Case{"ring", 8, 14}, Case{"ring", 5, 8}, Case{"binary_tree", 8, 6}, Case{"binary_tree", 5, 6},
        Case{"recursive_doubling", 8, 3}, Case{"recursive_doubling", 5, 4}, Case{"halving_doubling", 8, 6},
        Case{"halving_doubling", 5, 6}, Case{"two_level", 8, 8}, Case{"torus", 12, 10},
        Case{"reduce_scatter", 8, 7}, Case{"all_gather", 8, 7}, Case{"broadcast", 8, 3},
        Case{"broadcast", 5, 3}}) {
    CAPTURE(of.name);
    CAPTURE(of.ranks);
    CHECK(rounds_of(make(of.name, {.ranks = of.ranks, .bytes = 1, .ranks_per_node = 4})).rounds() ==
          of.rounds);
  }
  for (const PatternEntry& entry : patterns())
    if (const Collective one = entry.make({.ranks = 1, .bytes = 9}); entry.name != "double_binary_tree")
      CHECK(rounds_of(one).rounds() == 0);
}

TEST_CASE("patterns: parts add up, and the first are a byte larger where they cannot be alike") {
  const Stretch whole = {.begin = 100, .end = 111};
  CHECK(part_of(whole, 4, 0) == Stretch{100, 103});
  CHECK(part_of(whole, 4, 1) == Stretch{103, 106});
  CHECK(part_of(whole, 4, 2) == Stretch{106, 109});
  CHECK(part_of(whole, 4, 3) == Stretch{109, 111});
  CHECK(part_of({.begin = 5, .end = 6}, 3, 0) == Stretch{5, 6});
  CHECK(part_of({.begin = 5, .end = 6}, 3, 2) == Stretch{6, 6});
}

TEST_CASE("patterns: a ring of 3, message by message") {
  // 7 bytes: part 0 is 0-2, part 1 is 3-4, part 2 is 5-6; the smaller parts are padded to 3 bytes
  const Collective how = make("ring", {.ranks = 3, .bytes = 7});
  const BytePattern& ring = rounds_of(how);
  CHECK(ring.exchange(0, 0) == Exchange{.to = 1, .from = 2, .bytes_out = 3, .bytes_in = 3, .sums = true});
  CHECK(ring.exchange(1, 0) == Exchange{.to = 2, .from = 0, .bytes_out = 3, .bytes_in = 3, .sums = true});
  CHECK(ring.exchange(1, 1) == Exchange{.to = 2, .from = 0, .bytes_out = 3, .bytes_in = 3, .sums = true});
  CHECK(ring.exchange(2, 2) == Exchange{.to = 0, .from = 1, .bytes_out = 3, .bytes_in = 3, .sums = false});
  CHECK(ring.move(1, 0).out == Stretch{3, 5});
  CHECK(ring.move(2, 2).out == Stretch{0, 3});  // its sum was complete first
}

TEST_CASE("patterns: two_level leaves a node with the node's share only") {
  const Collective how = make("two_level", {.ranks = 8, .bytes = 64, .ranks_per_node = 4});
  const BytePattern& pattern = rounds_of(how);
  std::array<std::int64_t, 2> sent = {};  // inside, between nodes
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    const Exchange own = pattern.exchange(5, round);
    sent.at(own.to / 4 == 1 ? 0 : 1) += own.bytes_out;
  }
  CHECK(sent == std::array<std::int64_t, 2>{2 * 48, 16});
}

TEST_CASE("patterns: halves and trees prefer neighbours for what is large or late") {
  const Collective halving = make("halving_doubling", {.ranks = 8, .bytes = 64});
  const Collective tree = make("binary_tree", {.ranks = 8, .bytes = 64});
  CHECK(rounds_of(halving).exchange(5, 0) == Exchange{4, 4, 32, 32, true});
  CHECK(rounds_of(halving).exchange(5, 2) == Exchange{1, 1, 8, 8, true});
  CHECK(rounds_of(halving).exchange(5, 3) == Exchange{1, 1, 8, 8, false});
  CHECK(rounds_of(tree).exchange(5, 0) == Exchange{.to = 4, .bytes_out = 64});
  CHECK(rounds_of(tree).exchange(4, 1) == Exchange{.from = 6, .bytes_in = 64, .sums = true});
  CHECK(rounds_of(tree).exchange(4, 3) == Exchange{.from = 0, .bytes_in = 64});
}

std::uint32_t depth(const Tree& tree, std::uint32_t rank) {
  std::uint32_t out = 0;
  for (; tree.parent[rank] != Tree::kRoot; rank = tree.parent[rank]) ++out;
  return out;
}

TEST_CASE("patterns: of the two trees a rank has two children at most, and they are no deeper than need be") {
  for (std::uint32_t ranks = 1; ranks <= 130; ++ranks) {
    CAPTURE(ranks);
    const DoubleBinaryTree both(ranks, 1);
    std::vector<std::array<std::uint32_t, 2>> children(ranks);
    for (std::uint32_t i = 0; i < 2; ++i) {
      const Tree& tree = both.trees().at(i);
      std::uint32_t deepest = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        deepest = std::max(deepest, depth(tree, rank));
        if (tree.parent[rank] != Tree::kRoot) ++children[tree.parent[rank]].at(i);
      }
      CHECK(std::ranges::count(tree.parent, Tree::kRoot) == 1);
      CHECK(std::ranges::is_permutation(tree.order, [&] {
        Ranks all(ranks);
        std::iota(all.begin(), all.end(), 0U);
        return all;
      }()));
      CHECK(deepest == doublings(ranks));
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::array<std::uint32_t, 2>& of = children[rank];
      CHECK(of[0] + of[1] <= 2);
      CHECK((of[0] == 0 || of[1] == 0 || (rank == 0 && ranks % 2 == 1)));
    }
  }
}

TEST_CASE("patterns: are found by name") {
  for (const PatternEntry& entry : patterns()) CHECK(find_pattern(entry.name)->name == entry.name);
  CHECK(find_pattern("rings") == nullptr);
}

}  // namespace
}  // namespace cluster
