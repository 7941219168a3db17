// Rules of groupings, against a direct check of every group and every grouping.

#include "planner/choose/rules.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using support::gradients_of;
using support::Random;

/// GroupRules in plain form.
struct PlainRules {
  std::vector<std::int64_t> bytes;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  std::optional<std::int64_t> buffer;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> together;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> apart;
  std::optional<std::uint32_t> count;

  std::uint32_t gradients() const { return static_cast<std::uint32_t>(bytes.size()); }

  bool allows(std::uint32_t begin, std::uint32_t end) const {
    const auto holds = [&](std::uint32_t gradient) { return begin <= gradient && gradient < end; };
    std::int64_t sum = 0;
    for (std::uint32_t i = begin; i < end; ++i) sum += bytes[i];
    if (sum < min || sum > max.value_or(sum)) return false;
    if (end - begin > 1 && sum > buffer.value_or(sum)) return false;
    for (const auto& [first, last] : together)
      for (std::uint32_t i = first; i < last; ++i)
        if (holds(i) != holds(i + 1)) return false;
    return std::none_of(apart.begin(), apart.end(),
                        [&](const auto& pair) { return holds(pair.first) && holds(pair.second); });
  }

  bool allows(const Groups& groups) const {
    return count.value_or(groups.size()) == groups.size() &&
           std::all_of(groups.begin(), groups.end(), [&](const Group& g) { return allows(g.begin, g.end); });
  }
};

std::pair<std::uint32_t, std::uint32_t> random_pair(Random& random, std::uint32_t gradients) {
  const std::uint32_t first = random.below(gradients - 1);
  return {first, first + 1 + random.below(gradients - first - 1)};
}

PlainRules random_rules(Random& random) {
  PlainRules rules;
  rules.bytes.resize(2 + random.below(9));
  for (std::int64_t& bytes : rules.bytes) bytes = random.between(1, 20);
  if (random.one_in(3)) rules.min = random.between(0, 50);
  if (random.one_in(3)) rules.max = random.between(1, 100);
  if (random.one_in(3)) rules.buffer = random.between(0, 60);
  for (std::uint32_t pairs = random.below(3); pairs-- > 0;)
    rules.together.push_back(random_pair(random, rules.gradients()));
  for (std::uint32_t pairs = random.below(3); pairs-- > 0;)
    rules.apart.push_back(random_pair(random, rules.gradients()));
  if (random.one_in(3)) rules.count = static_cast<std::uint32_t>(random.between(1, 12));
  return rules;
}

/// A workload with gradients of these bytes; its other values do not affect rules.
Workload workload_of(const std::vector<std::int64_t>& bytes) {
  Workload out;
  out.gradients.resize(bytes.size());
  for (const std::int64_t each : bytes) out.bytes_before.push_back(out.bytes_before.back() + each);
  return out;
}

GroupRules group_rules(Random& random, const PlainRules& plain) {
  GroupRules rules(workload_of(plain.bytes));
  rules.min_bytes(plain.min);
  if (plain.max) rules.max_bytes(*plain.max);
  if (plain.buffer) rules.buffer_bytes(*plain.buffer);
  for (const auto& [first, last] : plain.together) rules.keep_together(first, last);
  for (const auto& [first, last] : plain.apart)
    random.one_in(2) ? rules.keep_apart(first, last) : rules.keep_apart(last, first);
  if (plain.count) rules.count(*plain.count);
  return rules;
}

template <typename Check>
void for_random_rules(Check check) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const PlainRules plain = random_rules(random);
    check(plain, group_rules(random, plain));
  }
}

TEST_CASE("rules: a group is allowed where each rule by itself allows it") {
  for_random_rules([](const PlainRules& plain, const GroupRules& rules) {
    for (std::uint32_t begin = 0; begin < plain.gradients(); ++begin)
      for (std::uint32_t end = begin + 1; end <= plain.gradients(); ++end) {
        CAPTURE(begin);
        CAPTURE(end);
        CHECK(rules.allows(begin, end) == plain.allows(begin, end));
      }
  });
}

TEST_CASE("rules: no allowed group begins before the soonest begin, which sizes and pairs set") {
  for_random_rules([](const PlainRules& plain, const GroupRules& rules) {
    PlainRules at_most = plain;  // rules that hold for shorter groups, too
    at_most.min = 0;
    at_most.together.clear();
    for (std::uint32_t end = 1; end <= plain.gradients(); ++end) {
      CAPTURE(end);
      std::uint32_t soonest = end - 1;  // a single gradient is always checked
      for (std::uint32_t begin = end; begin-- > 0;) {
        if (at_most.allows(begin, end)) soonest = std::min(soonest, begin);
        if (plain.allows(begin, end)) CHECK(begin >= rules.soonest_begin(end));
      }
      CHECK(rules.soonest_begin(end) == soonest);
    }
  });
}

/// The possible completions after a cut and a number of groups before it.
struct PlainCompletions {
  explicit PlainCompletions(const PlainRules& rules) {
    const std::uint32_t count = rules.gradients();
    PlainRules uncounted = rules;
    uncounted.count.reset();
    for (std::uint32_t cut = 0; cut <= count; ++cut) {
      lengths.emplace_back();
      if (cut == count) lengths.back().insert(0);
      if (cut == count) break;
      support::for_each_grouping(count - cut, 1, support::any_grouping, [&](Groups groups) {
        for (Group& group : groups) group = {.begin = group.begin + cut, .end = group.end + cut};
        if (uncounted.allows(groups)) lengths.back().insert(static_cast<std::uint32_t>(groups.size()));
      });
    }
  }

  std::vector<std::set<std::uint32_t>> lengths;  ///< numbers of groups that the rest can form, by cut
};

TEST_CASE("rules: what is left can be grouped where some grouping of it keeps to the rules") {
  for_random_rules([](const PlainRules& plain, const GroupRules& rules) {
    const PlainCompletions expected(plain);
    const std::uint32_t count = plain.gradients();
    const Completions completions(rules, count);
    for (std::uint32_t cut = 0; cut <= count; ++cut)
      for (std::uint32_t before = 0; before <= count + 3; ++before) {
        CAPTURE(cut);
        CAPTURE(before);
        const std::set<std::uint32_t>& lengths = expected.lengths[cut];
        const bool possible = plain.count ? before <= *plain.count && lengths.count(*plain.count - before) > 0
                                          : !lengths.empty();
        CHECK(completions.possible(cut, before) == possible);
      }
    CHECK(completions.possible() == completions.possible(0, 0));
    if (!plain.count) return;
    const std::vector<bool>& numbers = completions.numbers_of_groups();
    REQUIRE(numbers.size() == *plain.count + 1);
    for (std::uint32_t groups = 0; groups < numbers.size(); ++groups)
      CHECK(numbers[groups] == (expected.lengths[0].count(groups) > 0));
  });
}

TEST_CASE("rules: without any, everything is allowed, and a count alone counts") {
  const GroupRules none;
  CHECK(none.allows(0, 1'000'000));
  CHECK(none.soonest_begin(7) == 0);
  CHECK_FALSE(none.count().has_value());
  CHECK(Completions(none, 5).possible(0, 17));
  GroupRules three;
  three.count(3);
  CHECK(three.allows(0, 5));
  CHECK(Completions(three, 5).possible());
  CHECK(Completions(three, 5).possible(4, 2));
  CHECK_FALSE(Completions(three, 5).possible(3, 0));  // two gradients cannot form three groups
  CHECK_FALSE(Completions(three, 5).possible(5, 2));
  CHECK_FALSE(Completions(three, 2).possible());
}

TEST_CASE("rules: a gradient larger than the buffer travels alone, as it needs none") {
  GroupRules rules(workload_of({4, 100, 4, 4}));
  rules.buffer_bytes(8);
  CHECK(rules.allows(1, 2));
  CHECK_FALSE(rules.allows(0, 2));
  CHECK(rules.allows(2, 4));
  CHECK(rules.soonest_begin(2) == 1);
  CHECK(rules.soonest_begin(4) == 2);
  rules.max_bytes(99);  // the maximum also applies to a single gradient
  CHECK_FALSE(rules.allows(1, 2));
  CHECK_FALSE(Completions(rules, 4).possible());
}

TEST_CASE("rules: what is kept together takes along what lies between, and overlaps grow together") {
  GroupRules rules(workload_of({4, 4, 4, 4, 4}));
  rules.keep_together(0, 2);
  rules.keep_together(2, 3);
  CHECK(rules.allows(0, 4));
  CHECK(rules.allows(4, 5));
  CHECK_FALSE(rules.allows(0, 3));
  CHECK_FALSE(rules.allows(1, 5));
  rules.count(1);
  CHECK(Completions(rules, 5).possible());
  rules.count(3);
  CHECK_FALSE(Completions(rules, 5).possible());
}

}  // namespace
}  // namespace planner
