// Local search: the result is no worse than the start, satisfies the rules, and has no better neighbour.

#include "planner/choose/local_search.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using sim::Time;
using support::any_grouping;
using support::best_rank;
using support::Random;
using support::Rank;
using support::rank;

/// A pseudo-random value of each grouping, unrelated to its neighbours' values.
Time random_value(const Groups& groups, std::uint32_t seed) {
  for (const Group& group : groups) seed = (seed * 31 + group.end) * 31 + group.transfer;
  return Time(Random(seed).below(40));
}

/// The sum of random group costs: an objective on which local search makes progress.
Time sum_of_costs(const Groups& groups, std::uint32_t seed) {
  Time out{};
  for (const Group& group : groups) {
    const std::uint32_t length = group.end - group.begin;
    out += Time(5 + Random(seed + 97 * group.transfer + length * length).below(30));
  }
  return out;
}

bool keeps_to(const GroupRules& rules, const Groups& groups) {
  return rules.count().value_or(groups.size()) == groups.size() &&
         std::all_of(groups.begin(), groups.end(),
                     [&](const Group& g) { return rules.allows(g.begin, g.end); });
}

GroupRules random_rules(Random& random, std::uint32_t gradients) {
  Workload workload;
  for (std::uint32_t i = 0; i < gradients; ++i)
    workload.bytes_before.push_back(workload.bytes() + random.between(1, 9));
  GroupRules rules(workload);
  if (random.one_in(2)) rules.max_bytes(random.between(9, 40));
  if (random.one_in(2)) rules.keep_apart(0, gradients - 1);
  return rules;
}

/// All groupings that differ from this one in one merge, one cut, one cut moved by 1, 2 or 4, or one
/// transfer, within the rules.
std::vector<Groups> neighbours(const Groups& from, std::uint32_t transfers, const GroupRules& rules) {
  std::vector<Groups> out;
  support::for_each_grouping(from.back().end, transfers, any_grouping, [&](const Groups& groups) {
    if (!keeps_to(rules, groups)) return;
    // groups that occur in only one of the two
    std::vector<Group> left;
    std::vector<Group> right;
    const auto other = [](const Groups& all) {
      return [&all](const Group& g) { return std::find(all.begin(), all.end(), g) == all.end(); };
    };
    std::copy_if(from.begin(), from.end(), std::back_inserter(left), other(groups));
    std::copy_if(groups.begin(), groups.end(), std::back_inserter(right), other(from));
    const auto transfers_agree = [&] { return left.front().transfer == right.front().transfer; };
    const bool merged = left.size() == 2 && right.size() == 1 && transfers_agree();
    const bool cut =
        left.size() == 1 && right.size() == 2 && transfers_agree() && right[1].transfer == left[0].transfer;
    const auto distance = [&] {
      const std::int64_t by = std::int64_t{left.front().end} - right.front().end;
      return by < 0 ? -by : by;
    };
    const bool moved = left.size() == 2 && right.size() == 2 && transfers_agree() &&
                       left.back().transfer == right.back().transfer && (distance() & (distance() - 1)) == 0;
    const bool other_transfer = left.size() == 1 && right.size() == 1;
    if (merged || cut || moved || other_transfer) out.push_back(groups);
  });
  return out;
}

TEST_CASE("local search: ends no worse than it began, within the rules, where no neighbour is better") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t gradients = 2 + random.below(6);  // few enough to try every place
    const GroupRules rules = random_rules(random, gradients);
    Groups from = support::random_groups(random, gradients);
    const std::uint32_t transfers = 1 + random.below(2);
    for (Group& group : from) group.transfer = random.below(transfers);
    if (!keeps_to(rules, from)) continue;
    const bool rough = random.one_in(2);
    const auto value = [&](const Groups& groups) {
      return rough ? random_value(groups, seed) : sum_of_costs(groups, seed);
    };
    const Improved found = improve({.rules = rules, .transfers = transfers, .value = value}, from);
    CAPTURE(support::shown(from));
    CAPTURE(support::shown(found.groups));
    CHECK(found.value == value(found.groups));
    CHECK(keeps_to(rules, found.groups));
    CHECK(rank(found.groups, found.value) <= rank(from, value(from)));
    for (const Groups& groups : neighbours(found.groups, transfers, rules)) {
      CAPTURE(support::shown(groups));
      CHECK(rank(groups, value(groups)) >= rank(found.groups, found.value));
    }
  }
}

TEST_CASE("local search: a number of groups is kept, and cuts move") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t gradients = 2 + random.below(30);
    const Groups from = support::random_groups(random, gradients);
    GroupRules rules = random_rules(random, gradients);
    if (!keeps_to(rules, from)) continue;
    rules.count(static_cast<std::uint32_t>(from.size()));
    const auto value = [&](const Groups& groups) { return sum_of_costs(groups, seed); };
    const Improved found = improve({.rules = rules, .value = value}, from);
    CHECK(keeps_to(rules, found.groups));
    CHECK(found.groups.back().end == gradients);
    CHECK(found.value <= value(from));
  }
}

TEST_CASE("local search: looks no more often than it may, and keeps the best so far") {
  for (std::uint32_t max = 0; max < 60; ++max) {
    CAPTURE(max);
    Random random(max);
    const Groups from = support::random_groups(random, 40);
    std::uint32_t looks = 0;
    Rank min = support::kNoGrouping;
    const auto value = [&](const Groups& groups) {
      ++looks;
      const Time out = sum_of_costs(groups, max);
      min = std::min(min, rank(groups, out));
      return out;
    };
    const GroupRules none;
    const Improved found = improve({.rules = none, .value = value, .max_evaluations = max}, from);
    CHECK(looks <= max + 1);  // plus one evaluation of the start
    CHECK(rank(found.groups, found.value) == min);
  }
}

TEST_CASE("local search: where there is no better neighbour it stays, for all it looks at") {
  const GroupRules rules;
  const Groups from = {{.begin = 0, .end = 2}, {.begin = 2, .end = 3}};
  // equal values: fewer groups are better
  const Improved merged = improve({.rules = rules, .value = [](const Groups&) { return Time(7); }}, from);
  CHECK(support::shown(merged.groups) == "3");
  const auto only_this = [&](const Groups& groups) { return Time(groups == from ? 1 : 2); };
  CHECK(improve({.rules = rules, .transfers = 3, .value = only_this}, from).groups == from);
}

}  // namespace
}  // namespace planner
