// Steps: the same times as message by message, as the closed forms if all ranks are alike, and as known runs.

#include "sim/cluster/steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/cluster/patterns.hpp"
#include "sim/draws.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using sim::Time;
using Times = std::vector<Time>;

const BytePattern& rounds_of(const Collective& how) {
  return *std::get<std::unique_ptr<const BytePattern>>(how);
}

Collective make(std::string_view name, const Shape& shape) { return find_pattern(name)->make(shape); }

bool in_rounds(const PatternEntry& entry) { return entry.name != "double_binary_tree"; }

Times run(const Collective& how, const Links& links, Times times, std::uint64_t collective = 0) {
  run_steps(how, links, collective, times);
  return times;
}

Time us(double value) { return sim::from_us(value); }

Links alike(std::uint32_t ranks, double alpha, double beta, double gamma = 0) {
  return {.levels = {{.ranks = ranks, .link = {.startup_us = alpha, .us_per_byte = beta}}},
          .sum_us_per_byte = gamma,
          .slowdown = {}};
}

/// Nodes of 4, with random links, ranks and sizes.
struct Instance {
  Shape shape;
  Links links;
  Times starts;
  std::uint64_t collective = 0;
};

Instance random_instance(std::uint32_t seed) {
  support::Random random(seed);
  Instance out;
  const std::uint32_t ranks = 1 + random.below(random.one_in(4) ? 70 : 20);
  const std::int64_t bytes = random.between(0, random.one_in(3) ? 50 : 100'000);
  out.shape = {.ranks = ranks, .bytes = bytes, .ranks_per_node = 1 + random.below(6)};
  out.links = {
      .levels = {{.ranks = 4, .link = {.startup_us = 0.1 * random.below(50), .us_per_byte = 1e-4 / 3}},
                 {.ranks = 128, .link = {.startup_us = 5.1 + random.below(5), .us_per_byte = 1e-3 / 7}}},
      .sum_us_per_byte = random.one_in(3) ? 0 : 1e-4 / 11,
      .slowdown = {},
      .sigma = random.one_in(2) ? 0 : 0.3,
      .seed = seed};
  const bool varies = !random.one_in(4);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    if (varies) out.links.slowdown.push_back(1 + 0.01 * random.below(100));
    out.starts.push_back(Time(random.below(1U << (5 * random.below(7)))));
  }
  out.collective = random.below(1000);
  return out;
}

// ---- an obvious oracle

/// Computes recursively when `rank` has left `rounds` rounds.
class Oracle {
 public:
  Oracle(const Pattern& pattern, const Instance& of) : pattern_(pattern), of_(of) {}

  Time left(std::uint32_t rank, std::uint32_t rounds) {
    if (rounds == 0) return of_.starts[rank];
    const auto known = known_.find({rank, rounds});
    if (known != known_.end()) return known->second;
    const Exchange own = pattern_.exchange(rank, rounds - 1);
    Time at = left(rank, rounds - 1);
    if (own.to != Exchange::kNobody) at = out(rank, rounds);
    if (own.from != Exchange::kNobody) at = std::max(at, out(own.from, rounds));
    if (own.sums) at += sum_time(of_.links, own.bytes_in);
    return known_[{rank, rounds}] = at;
  }

 private:
  Time out(std::uint32_t rank, std::uint32_t rounds) {
    const Exchange own = pattern_.exchange(rank, rounds - 1);
    const MessageKey key = {.collective = of_.collective, .round = rounds - 1, .from = rank};
    return left(rank, rounds - 1) + message_time(of_.links, key, own.to, own.bytes_out);
  }

  const Pattern& pattern_;
  const Instance& of_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Time> known_;
};

TEST_CASE("steps: equal to the picosecond to asking backwards, rank by rank and round by round") {
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    const Instance of = random_instance(seed);
    for (const PatternEntry& entry : patterns()) {
      if (!in_rounds(entry)) continue;
      CAPTURE(entry.name);
      const Collective how = entry.make(of.shape);
      const BytePattern& pattern = rounds_of(how);
      Oracle oracle(pattern, of);
      Times expected;
      for (std::uint32_t rank = 0; rank < of.shape.ranks; ++rank)
        expected.push_back(oracle.left(rank, pattern.rounds()));
      CHECK(run(how, of.links, of.starts, of.collective) == expected);
    }
  }
}

TEST_CASE("steps: the way for rings is the way for any pattern, to the picosecond") {
  int rings = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const Instance of = random_instance(seed);
    for (const PatternEntry& entry : patterns()) {
      if (!in_rounds(entry)) continue;
      CAPTURE(entry.name);
      const Collective how = entry.make(of.shape);
      const auto* pattern = dynamic_cast<const Rings*>(&rounds_of(how));
      if (pattern == nullptr) continue;
      ++rings;
      Times quick = of.starts;
      Times slow = of.starts;
      run_rings(*pattern, of.links, of.collective, quick);
      run_rounds(*pattern, of.links, of.collective, slow);
      CHECK(quick == slow);
    }
  }
  CHECK(rings == 5 * 500);  // ring, two_level, torus, reduce_scatter, all_gather
}

TEST_CASE("steps: rings stay exact where times are too long for doubles") {
  // A double represents every integer up to 2^53, and no odd one above.
  for (const std::int64_t base : {(std::int64_t{1} << 53U) - 500'000, (std::int64_t{1} << 53U) + 1,
                                  (std::int64_t{1} << 60U) + 1, std::int64_t{8'999'999'999'000'000}}) {
    CAPTURE(base);
    Links links = alike(7, 0.000003, 0.001);
    links.slowdown = {1, 1, 2, 1, 3, 1, 1};
    Times starts;
    for (int i = 0; i < 7; ++i) starts.emplace_back(base + 17 * i);
    const Collective how = make("ring", {.ranks = 7, .bytes = 71});
    Times slow = starts;
    run_rounds(rounds_of(how), links, 0, slow);
    CHECK(run(how, links, starts) == slow);
  }
}

// ---- whose entry decides

TEST_CASE("steps: each rank is told whose entry decides when it leaves") {
  int decided_by_others = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    const Instance of = random_instance(seed);
    for (const PatternEntry& entry : patterns()) {
      CAPTURE(entry.name);
      const Collective how = entry.make(of.shape);
      const Times expected = run(how, of.links, of.starts, of.collective);
      Times times = of.starts;
      std::vector<std::uint32_t> origins(times.size());
      run_steps(how, of.links, of.collective, times, origins);
      CHECK(times == expected);
      for (std::uint32_t rank = 0; rank < times.size(); rank += 1 + rank / 4) {
        REQUIRE(origins[rank] < times.size());
        decided_by_others += origins[rank] == rank ? 0 : 1;
        Times alone(times.size(), Time(of.starts[origins[rank]].count() - (std::int64_t{1} << 50U)));
        alone[origins[rank]] = of.starts[origins[rank]];  // and all others long before
        CHECK(run(how, of.links, alone, of.collective)[rank] == expected[rank]);
      }
    }
  }
  CHECK(decided_by_others > 1000);
}

TEST_CASE("steps: nobody is told where times are too far apart") {
  Links links = alike(5, 1, 0.001);
  Times times = {us(0), us(8e12), us(1), us(2), us(3)};
  const Times expected = run(make("ring", {.ranks = 5, .bytes = 100}), links, times);
  std::vector<std::uint32_t> origins(5);
  run_steps(make("ring", {.ranks = 5, .bytes = 100}), links, 0, times, origins);
  CHECK(times == expected);
  CHECK(origins == std::vector<std::uint32_t>(5, Exchange::kNobody));
}

// ---- by hand

TEST_CASE("steps: a ring of 3 with one slow link, by hand") {
  // 3 bytes, one in each part; a message takes 2 us, of rank 1 6 us; a sum takes 1 us.
  //           enters  round 0           round 1
  //   rank 0  0       out 2, in 3: 4    out  6, in  9: 10
  //   rank 1  0       out 6, in 2: 7    out 13, in  6: 14
  //   rank 2  1       out 3, in 6: 7    out  9, in 13: 14
  // and without sums
  //                   round 2             round 3
  //   rank 0          out 12, in 16: 16   out 18, in 22: 22
  //   rank 1          out 20, in 12: 20   out 26, in 18: 26
  //   rank 2          out 16, in 20: 20   out 22, in 26: 26
  Links links = alike(3, 1, 1, 1);
  links.slowdown = {1, 3, 1};
  const Times starts = {us(0), us(0), us(1)};
  CHECK(run(make("reduce_scatter", {.ranks = 3, .bytes = 3}), links, starts) ==
        Times{us(10), us(14), us(14)});
  CHECK(run(make("ring", {.ranks = 3, .bytes = 3}), links, starts) == Times{us(22), us(26), us(26)});
}

TEST_CASE("steps: a message waits for its receiver, and a sender for nobody but itself") {
  const Links links = alike(2, 1, 0);
  const Collective how = make("broadcast", {.ranks = 2, .bytes = 10});
  CHECK(run(how, links, {us(5), us(0)}) == Times{us(6), us(6)});
  CHECK(run(how, links, {us(0), us(5)}) == Times{us(1), us(5)});
}

TEST_CASE("steps: one rank leaves as it enters") {
  for (const PatternEntry& entry : patterns())
    CHECK(run(entry.make({.ranks = 1, .bytes = 1000}), alike(1, 3, 1, 1), {us(7)}) == Times{us(7)});
}

TEST_CASE("steps: two_level pays each level's link") {
  // 2 nodes of 2; inside 1 us a message, between 10
  const Links links = {
      .levels = {{.ranks = 2, .link = {.startup_us = 1}}, {.ranks = 4, .link = {.startup_us = 10}}},
      .slowdown = {}};
  const Shape shape = {.ranks = 4, .bytes = 64, .ranks_per_node = 2};
  CHECK(run(make("two_level", shape), links, Times(4)) == Times(4, us(1 + 2 * 10 + 1)));
  CHECK(run(make("ring", shape), links, Times(4)) == Times(4, us(6 * 10)));
}

// ---- closed forms

struct ClosedForm {
  const char* name;
  double alphas;
  double betas;
  double gammas;
};

/// The closed forms of the contract for P ranks in nodes of 4.
std::vector<ClosedForm> closed_forms(double p) {
  const double lg = std::log2(p);
  const double share = (p - 1) / p;
  const double n = std::min(p, 4.0);
  const double m = p / n;
  const double inside = (n - 1) / n;
  const double between = (m - 1) / m / n;
  return {{"ring", 2 * (p - 1), 2 * share, share},
          {"binary_tree", 2 * lg, 2 * lg, lg},
          {"recursive_doubling", lg, lg, lg},
          {"halving_doubling", 2 * lg, 2 - 2 / p, 1 - 1 / p},
          {"double_binary_tree", 2 * lg, 2, 1},
          {"two_level", 2 * (n - 1) + 2 * (m - 1), 2 * inside + 2 * between, inside + between},
          {"torus", 2 * (n - 1) + 2 * (m - 1), 2 * inside + 2 * between, inside + between},
          {"reduce_scatter", p - 1, share, share},
          {"all_gather", p - 1, share, 0},
          {"broadcast", lg, lg, 0}};
}

TEST_CASE("steps: the closed forms exactly, where ranks are alike and sizes divide") {
  CHECK(closed_forms(4).size() == patterns().size());
  constexpr std::int64_t kBytes = 4096;
  for (const std::uint32_t ranks : {2U, 4U, 8U, 16U, 64U, 256U})
    for (const ClosedForm& form : closed_forms(ranks)) {
      // a bound only, see below
      if (std::string_view(form.name) == "double_binary_tree" && ranks == 2) continue;
      CAPTURE(form.name);
      CAPTURE(ranks);
      const Links links = alike(ranks, 7, 0.25, 0.125);
      const Times ends = run(make(form.name, {.ranks = ranks, .bytes = kBytes, .ranks_per_node = 4}), links,
                             Times(ranks, us(100)));
      CHECK(*std::ranges::max_element(ends) ==
            us(100 + form.alphas * 7 + (form.betas * 0.25 + form.gammas * 0.125) * kBytes));
    }
}

TEST_CASE("steps: rings and broadcasts keep their closed forms on any number of ranks") {
  for (const std::uint32_t ranks : {3U, 5U, 6U, 7U, 15U, 17U}) {
    CAPTURE(ranks);
    const std::int64_t bytes = 16 * std::int64_t{ranks};
    const double others = ranks - 1;
    const double lg = doublings(ranks);
    const auto last = [&](const char* name) {
      const Times ends =
          run(make(name, {.ranks = ranks, .bytes = bytes}), alike(ranks, 7, 0.25, 0.125), Times(ranks));
      return *std::ranges::max_element(ends);
    };
    CHECK(last("ring") == us(2 * others * (7 + 4) + others * 2));
    CHECK(last("reduce_scatter") == us(others * (7 + 4 + 2)));
    CHECK(last("all_gather") == us(others * (7 + 4)));
    CHECK(last("broadcast") == us(lg * (7 + 0.25 * static_cast<double>(bytes))));
    CHECK(last("double_binary_tree") == us(2 * lg * 7 + 0.625 * static_cast<double>(bytes)));
  }
}

TEST_CASE("steps: on links all alike a ring ends everywhere 2(P-1) steps after the last start") {
  for (const std::uint32_t ranks : {2U, 3U, 15U, 16U, 17U, 64U}) {
    support::Random random(ranks);
    Times starts(ranks);
    for (Time& start : starts) start = Time(random.below(1'000'000'000));
    const Time last = *std::ranges::max_element(starts);
    const Times ends =
        run(make("ring", {.ranks = ranks, .bytes = 10 * std::int64_t{ranks}}), alike(ranks, 3, 1), starts);
    CHECK(ends == Times(ranks, last + 2 * (ranks - 1) * us(13)));
  }
}

// ---- properties

TEST_CASE("steps: to enter later is never to leave sooner, and no later than the delay") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Instance of = random_instance(seed);
    support::Random random(seed);
    Times later = of.starts;
    Time max{};
    for (Time& start : later) {
      const Time delay(random.one_in(2) ? 0 : random.below(10'000'000));
      start += delay;
      max = std::max(max, delay);
    }
    for (const PatternEntry& entry : patterns()) {
      CAPTURE(entry.name);
      const Collective how = entry.make(of.shape);
      const Times before = run(how, of.links, of.starts, of.collective);
      const Times after = run(how, of.links, later, of.collective);
      for (std::uint32_t rank = 0; rank < of.shape.ranks; ++rank) {
        CHECK(before[rank] >= of.starts[rank]);
        CHECK(after[rank] >= before[rank]);
        CHECK(after[rank] <= before[rank] + max);
      }
    }
  }
}

TEST_CASE("steps: draws belong to a collective and a seed") {
  Links links = alike(8, 5, 1e-3);
  links.sigma = 0.2;
  for (const PatternEntry& entry : patterns()) {
    CAPTURE(entry.name);
    const Collective how = entry.make({.ranks = 8, .bytes = 1000, .ranks_per_node = 4});
    const Times one = run(how, links, Times(8), 1);
    CHECK(one == run(how, links, Times(8), 1));
    CHECK(one != run(how, links, Times(8), 2));
    Links other = links;
    other.seed = 2;
    CHECK(one != run(how, other, Times(8), 1));
  }
}

// ---- the double binary tree

TEST_CASE("steps: the double binary tree, by hand") {
  // 4 ranks, 8 bytes, 4 a tree; alpha 1 us, beta 1, gamma 1; trees 0-2-{1, 3} and 3-1-{2, 0}; rank 3 enters
  // at 10, the others at 0.
  //   up, tree 0: 2 has its head at 11, its tail at 11 + 2 x (4 + 4) = 27; 0: head 12, tail 28
  //   up, tree 1: 1 has its head at 1, its tail at 1 + 16 = 17; 3: head 10, tail max(18, 10 + 8) = 18
  //   down: each rank but the roots receives 8 bytes, they 4
  //   down, tree 0: 0 at 28; 2: head 29, tail max(29, 29 + 8) = 37; 1 and 3: head 30, tail 38, 3: 34 or 38
  //   down, tree 1: 3 at 18; 1: head 19, tail 27; 2: 20, 28; 0: 20, 24 or 28
  Times starts(4);
  starts[3] = us(10);
  const Times ends = run(make("double_binary_tree", {.ranks = 4, .bytes = 8}), alike(4, 1, 1, 1), starts);
  CHECK(ends == Times{us(37), us(38), us(38), us(38)});
}

/// Computes heads and tails recursively, directly from the definition of the recurrence.
class TreeOracle {
 public:
  TreeOracle(const DoubleBinaryTree& trees, const Instance& of) : trees_(trees), of_(of) {}

  Time leaves(std::uint32_t rank) const {
    Time out{};
    for (std::uint32_t tree = 0; tree < 2; ++tree) {
      out = std::max(out, tail_down(tree, rank));
      for (const std::uint32_t child : children(tree, rank)) out = std::max(out, tail_down(tree, child));
    }
    return out;
  }

 private:
  std::uint32_t parent(std::uint32_t tree, std::uint32_t rank) const {
    return trees_.trees().at(tree).parent[rank];
  }
  bool is_root(std::uint32_t tree, std::uint32_t rank) const { return parent(tree, rank) == Tree::kRoot; }
  std::vector<std::uint32_t> children(std::uint32_t tree, std::uint32_t rank) const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < of_.shape.ranks; ++i)
      if (parent(tree, i) == rank) out.push_back(i);
    return out;
  }

  double factor(std::uint32_t tree, std::uint32_t child, bool up) const {
    const Links& links = of_.links;
    const std::uint32_t from = up ? child : parent(tree, child);
    const double slowdown = links.slowdown.empty() ? 1 : links.slowdown[from];
    if (links.sigma == 0) return slowdown;
    const std::uint64_t bits =
        message_bits(collective_bits(links, of_.collective), tree + (up ? 0 : 2), child);
    return slowdown * sim::lognormal_mean_one(bits, links.sigma);
  }
  const LinkCost& link(std::uint32_t tree, std::uint32_t child) const {
    return of_.links.between(child, parent(tree, child));
  }
  Time alpha(std::uint32_t tree, std::uint32_t child, bool up) const {
    return us(link(tree, child).startup_us * factor(tree, child, up));
  }
  double body_us(std::uint32_t tree, std::uint32_t child, bool up) const {
    const auto bytes = static_cast<double>(trees_.half(tree).size());
    const double sum = up ? bytes * of_.links.sum_us_per_byte : 0;
    return bytes * link(tree, child).us_per_byte * factor(tree, child, up) + sum;
  }

  Time head_up(std::uint32_t tree, std::uint32_t rank) const {
    Time out = of_.starts[rank];
    for (const std::uint32_t child : children(tree, rank))
      out = std::max(out, head_up(tree, child) + alpha(tree, child, true));
    return out;
  }
  Time tail_up(std::uint32_t tree, std::uint32_t rank) const {
    Time out = of_.starts[rank];
    double in_us = 0;
    for (std::uint32_t i = 0; i < 2; ++i)
      for (const std::uint32_t child : children(i, rank)) in_us += body_us(i, child, true);
    for (const std::uint32_t child : children(tree, rank)) {
      out = std::max(out, tail_up(tree, child) + alpha(tree, child, true));
      out = std::max(out, head_up(tree, rank) + us(in_us));
    }
    return out;
  }
  Time head_down(std::uint32_t tree, std::uint32_t rank) const {
    if (is_root(tree, rank)) return tail_up(tree, rank);
    return head_down(tree, parent(tree, rank)) + alpha(tree, rank, false);
  }
  Time tail_down(std::uint32_t tree, std::uint32_t rank) const {
    if (is_root(tree, rank)) return tail_up(tree, rank);
    double in_us = 0;
    for (std::uint32_t i = 0; i < 2; ++i)
      if (!is_root(i, rank)) in_us += body_us(i, rank, false);
    return std::max(tail_down(tree, parent(tree, rank)) + alpha(tree, rank, false),
                    head_down(tree, rank) + us(in_us));
  }

  const DoubleBinaryTree& trees_;
  const Instance& of_;
};

TEST_CASE("steps: the double binary tree is equal to the picosecond to asking backwards") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Instance of = random_instance(seed);
    of.shape.ranks = std::min(of.shape.ranks, 24U);
    of.starts.resize(of.shape.ranks);
    const Collective how = make("double_binary_tree", of.shape);
    const TreeOracle oracle(std::get<DoubleBinaryTree>(how), of);
    Times expected;
    for (std::uint32_t rank = 0; rank < of.shape.ranks; ++rank) expected.push_back(oracle.leaves(rank));
    CHECK(run(how, of.links, of.starts, of.collective) == expected);
  }
}

TEST_CASE("steps: the double binary tree takes its closed form, but (beta + gamma / 2) M less of two ranks") {
  // 2 alpha lg + (2 beta + gamma) M, of M = 96 bytes
  for (std::uint32_t ranks = 2; ranks <= 130; ++ranks) {
    CAPTURE(ranks);
    const Times ends = run(make("double_binary_tree", {.ranks = ranks, .bytes = 96}),
                           alike(ranks, 7, 0.25, 0.125), Times(ranks));
    const double closed = 2 * 7 * doublings(ranks) + (2 * 0.25 + 0.125) * 96;
    CHECK(*std::ranges::max_element(ends) == us(ranks == 2 ? closed - (0.25 + 0.125 / 2) * 96 : closed));
  }
}

TEST_CASE("steps: a slow sender delays the double binary tree by its own messages") {
  const Collective how = make("double_binary_tree", {.ranks = 16, .bytes = 1600});
  const Times even = run(how, alike(16, 1, 0.01), Times(16));
  for (std::uint32_t slow = 0; slow < 16; ++slow) {
    Links links = alike(16, 1, 0.01);
    links.slowdown.assign(16, 1);
    links.slowdown[slow] = 5;
    const Times ends = run(how, links, Times(16));
    CHECK(*std::ranges::max_element(ends) > *std::ranges::max_element(even));
  }
}

// ---- known runs

/// 54 rings, one for each layer of 2 ms of backward.
Time known_run(std::uint32_t ranks, const Collective& how, const Links& links) {
  Times times(ranks);
  for (std::uint32_t layer = 0; layer < 54; ++layer) {
    for (Time& time : times) time = std::max(time, us(2000.0 * (layer + 1)));
    run_steps(how, links, layer, times);
  }
  return *std::ranges::max_element(times);
}

TEST_CASE("steps: 54 rings under backward, as a message-level simulator has them") {
  // Its messages take 2500 ns and 1 ns for each byte but the first, and its parts are floored.
  for (const auto& [ranks, ns] : {std::pair{64U, 220'598'912}, std::pair{256U, 274'811'240}}) {
    const std::int64_t bytes = 102'400'000 / 54 / ranks * ranks;
    const Links links = alike(ranks, 2.499, 0.001);
    const Collective ring = make("ring", {.ranks = ranks, .bytes = bytes});
    CHECK(known_run(ranks, ring, links) == std::chrono::nanoseconds(ns));
  }
}

}  // namespace
}  // namespace cluster
