// The search by Pareto fronts on synthetic problems: random costs for every group and transfer, against all
// groupings; and its bound if fronts are truncated.

#include "planner/choose/pareto.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using sim::Time;
using support::covers;
using support::kNoGrouping;
using support::Random;
using support::Rank;
using support::rank;

struct TableStep {
  std::uint32_t end = 0;
  Time encode{};
  Time channel{};
};

/// A channel whose groups wait for gradients and for earlier encoding; costs of groups are arbitrary.
struct Table {
  std::uint32_t gradients = 0;
  std::uint32_t transfer_count = 1;
  bool grows = false;  ///< whether longer groups cost no less
  std::vector<Time> ready;
  std::vector<TableStep> steps;  ///< by transfer, begin and end

  TableStep& at(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer) {
    return steps[(std::size_t{transfer} * gradients + begin) * (gradients + 1) + end];
  }
  const TableStep& at(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer) const {
    return steps[(std::size_t{transfer} * gradients + begin) * (gradients + 1) + end];
  }
};

Table random_table(Random& random) {
  Table table;
  table.gradients = 1 + random.below(8);
  table.transfer_count = 1 + random.below(table.gradients > 6 ? 2 : 3);
  table.grows = random.one_in(2);
  table.steps.resize(std::size_t{table.transfer_count} * table.gradients * (table.gradients + 1));
  const std::uint32_t max = random.one_in(2) ? 6 : 60;  // small numbers give many ties
  const std::uint32_t max_encode = random.one_in(4) ? 1 : max / 3;
  Time ready{};
  for (std::uint32_t i = 0; i < table.gradients; ++i) table.ready.push_back(ready += Time(random.below(max)));
  for (std::uint32_t transfer = 0; transfer < table.transfer_count; ++transfer)
    for (std::uint32_t end = 1; end <= table.gradients; ++end) {
      TableStep step = {.end = end};
      for (std::uint32_t begin = end; begin-- > 0;) {
        const Time encode(random.below(max_encode));
        const Time channel(random.below(max));
        step.encode = table.grows ? step.encode + encode / 2 : encode;
        step.channel = table.grows ? step.channel + channel / 2 : channel;
        table.at(begin, end, transfer) = step;
      }
    }
  return table;
}

/// The table with the interface of ParetoSearch.
class TableProblem {
 public:
  static constexpr std::size_t kStates = 2;
  using State = ParetoState<kStates>;
  using Step = TableStep;

  explicit TableProblem(const Table& table) : table_(table) {}

  std::uint32_t count() const { return table_.gradients; }
  std::uint32_t transfers() const { return table_.transfer_count; }
  static State start() { return {}; }
  static State min(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const { return table_.grows; }
  const Step& step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer) const {
    return table_.at(begin, end, transfer);
  }
  State extend(const State& state, const Step& step) const {
    const Time encoded = state[1] + step.encode;
    return {std::max(state[0], table_.ready[step.end - 1] + encoded) + step.channel, encoded};
  }
  Time bound(const State& state, std::uint32_t /*cut*/) const {
    return std::max(state[0], table_.ready.back() + state[1]);
  }

 protected:
  const Table& table_;
};

/// The table for a search that finds the simplest optimum from the end.
class TableProblemBothWays : public TableProblem {
 public:
  static std::int64_t slack_counts() { return 1; }
  using TableProblem::TableProblem;

  std::optional<State> latest(const State& after, const Step& step) const {
    const Time start = after[0] - step.channel;
    return State{start, std::min(after[1], start - table_.ready[step.end - 1]) - step.encode};
  }
  State settle(State state, std::uint32_t cut) const {
    if (cut < table_.ready.size()) state[0] = std::max(state[0], table_.ready[cut] + state[1]);
    return state;
  }
  State latest_end(const State& /*state*/, Time value) const { return greatest_end(value); }
  State greatest_end(Time value) const { return {value, value - table_.ready.back()}; }
};

Time value_of(const Table& table, const Groups& groups) {
  Time encoded{};
  Time channel{};
  for (const Group& group : groups) {
    const TableStep& step = table.at(group.begin, group.end, group.transfer);
    encoded += step.encode;
    channel = std::max(channel, table.ready[group.end - 1] + encoded) + step.channel;
  }
  return std::max(channel, table.ready.back() + encoded);
}

/// Random rules that allow some grouping.
GroupRules random_rules(Random& random, std::uint32_t gradients) {
  Workload workload;
  for (std::uint32_t i = 0; i < gradients; ++i)
    workload.bytes_before.push_back(workload.bytes() + random.between(1, 9));
  for (;;) {
    GroupRules rules(workload);
    if (random.one_in(3)) rules.max_bytes(random.between(5, 40));
    if (random.one_in(3)) rules.min_bytes(random.between(1, 12));
    if (random.one_in(3)) rules.buffer_bytes(random.between(5, 40));
    if (gradients > 1 && random.one_in(4)) rules.keep_together(gradients / 2 - 1, gradients / 2);
    if (gradients > 1 && random.one_in(4)) rules.keep_apart(0, gradients - 1);
    if (random.one_in(3)) rules.count(1 + random.below(gradients));
    if (Completions(rules, gradients).possible()) return rules;
  }
}

bool keeps_to(const GroupRules& rules, const Groups& groups) {
  return rules.count().value_or(groups.size()) == groups.size() &&
         std::all_of(groups.begin(), groups.end(),
                     [&](const Group& g) { return rules.allows(g.begin, g.end); });
}

struct TableCase {
  Table table;
  GroupRules rules;
  Rank best = kNoGrouping;
};

template <typename Check>
void for_random_tables(std::uint32_t seeds, Check check) {
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TableCase out = {.table = random_table(random), .rules = {}};
    if (random.one_in(2)) out.rules = random_rules(random, out.table.gradients);
    out.best = support::best_rank(
        out.table.gradients, out.table.transfer_count,
        [&](const Groups& groups) { return value_of(out.table, groups); },
        [&](const Groups& groups) { return keeps_to(out.rules, groups); });
    check(out);
  }
}

template <typename Problem>
OptimalGroups search(const TableCase& on, std::size_t max_kept) {
  const Problem problem(on.table);
  OptimalGroups found = ParetoSearch<Problem>(problem, on.rules, max_kept).run();
  CAPTURE(support::shown(found.groups));
  REQUIRE(!found.groups.empty());
  CHECK(found.groups.front().begin == 0);
  CHECK(found.groups.back().end == on.table.gradients);
  for (std::size_t g = 1; g < found.groups.size(); ++g)
    CHECK(found.groups[g].begin == found.groups[g - 1].end);
  CHECK(keeps_to(on.rules, found.groups));
  CHECK(value_of(on.table, found.groups) == found.value);
  return found;
}

template <typename Problem>
void check_exact(const TableCase& on) {
  const OptimalGroups found = search<Problem>(on, 100'000);
  CHECK(rank(found.groups, found.value) == on.best);
  CHECK(found.optimality_gap == Time::zero());
  CHECK(found.largest_front > 0);
}

TEST_CASE("pareto: the best of all groupings and the simplest of the best, whatever groups cost") {
  for_random_tables(3000, [](const TableCase& on) { check_exact<TableProblem>(on); });
}

TEST_CASE("pareto: found from the end, the simplest of the best is the same") {
  for_random_tables(3000, [](const TableCase& on) { check_exact<TableProblemBothWays>(on); });
}

/// A truncated front may lose the optimum, but by no more than the reported bound.
template <typename Problem>
void check_cut_short(const TableCase& on) {
  const Time best = std::get<Time>(on.best);
  for (const std::size_t max_kept : {1U, 2U, 3U}) {
    CAPTURE(max_kept);
    const OptimalGroups found = search<Problem>(on, max_kept);
    CHECK(found.largest_front <= max_kept);
    CHECK(found.optimality_gap >= Time::zero());
    CHECK(found.value >= best);
    CHECK(found.value - found.optimality_gap <= best);
  }
}

TEST_CASE("pareto: cut short, a front still leads to a grouping, off by no more than it says") {
  for_random_tables(1500, [](const TableCase& on) { check_cut_short<TableProblem>(on); });
}

TEST_CASE("pareto: cut short and found from the end, likewise") {
  for_random_tables(1500, [](const TableCase& on) { check_cut_short<TableProblemBothWays>(on); });
}

}  // namespace
}  // namespace planner
