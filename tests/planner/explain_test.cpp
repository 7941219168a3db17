// Explanations: what each group waited for, and which of its collectives are exposed.

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "planner/advise/explain.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::Scene;
using support::schedule_of;

Explanation explained(const Scene& scene, const std::string& json) {
  const Schedule schedule = schedule_of(json);
  return explain(scene.setting, schedule, scene.run(schedule));
}

// compute  f1 20--30  f2 60--70  b2 70--90           b1 110--130      (of each iteration)
// channel  g1  0--20  g2 20--40  g1 70--90  r2 90--110           r1 130--150
TEST_CASE("explain: a reduce-scatter waits for the all-gather before it on the channel, and for no tick") {
  // halves of 4 + 400 x 0.09 each, the gradients of l2 ready while the parameters of l1 are gathered
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 5, {100}}}), support::pair_of(4, 0.09));
  const Explanation found = explained(scene, R"({"pipeline": "sharded", "fusion": "none"})");
  REQUIRE(found.groups.size() == 2);
  const GroupReason& first = found.groups[0];
  CHECK(first.sendable_us == 5);
  CHECK(first.start_us > first.sendable_us);
  CHECK(first.waited_for == "gather");
  CHECK(found.groups[1].waited_for == "gradients");
  for (const GroupReason& group : found.groups) {
    REQUIRE(group.exposed_by_kind.size() == 2);
    const double scattering_us = group.exposed_by_kind.at(core::CollectiveKind::reduce_scatter);
    CHECK(scattering_us <= group.end_us - group.start_us);
    CHECK(scattering_us + group.exposed_by_kind.at(core::CollectiveKind::all_gather) == group.exposed_us);
  }
  CHECK(explanation_text(found).find("waited for an all-gather before it on the channel") !=
        std::string::npos);
}

TEST_CASE("explain: what can be waited for is named as what it is") {
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}, {10, 20, {100}}}),
                    support::pair_of(4, 0.1));
  const auto causes = [&](const std::string& json) {
    std::set<std::string> out;
    for (const GroupReason& group : explained(scene, json).groups) out.insert(group.waited_for);
    return out;
  };
  CHECK(causes(R"("wfbp")") == std::set<std::string>{"gradients", "channel"});
  CHECK(causes(R"("zero1")") == std::set<std::string>{"gradients"});
  CHECK(
      causes(
          R"({"pipeline": "wfbp", "fusion": {"kind": "threshold", "cap_bytes": 1000000, "cycle_us": 1000}})") ==
      std::set<std::string>{"tick"});
}

TEST_CASE("explain: encoded gradients in an all-gather are a group before it on the channel, and no gather") {
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}}), support::pair_of(4, 0.1));
  const Explanation found = explained(scene, R"({"pipeline": "wfbp", "fusion": {"kind": "plan", "file": {
      "format": "fusewise.plan", "version": 1, "model": "m", "workers": 2, "pipeline": "wfbp",
      "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "heuristic", "groups": [
        {"tensors": ["l2.a"], "bytes": 400,
         "compression": {"name": "x", "ratio": 0.9, "collective": "all_gather"}},
        {"tensors": ["l1.a"], "bytes": 400}]}}})");
  CHECK(found.groups[0].waited_for == "gradients");
  CHECK(found.groups[1].waited_for == "channel");
}

TEST_CASE("explain: on several channels a reduce-scatter waits for the limit of those in flight") {
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}, {10, 20, {100}}}),
                    support::pair_of(4, 0.4), 2, {.channels = 2});
  const Explanation found =
      explained(scene, R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false,
                           "scatters_in_flight": 1})");
  CHECK(found.groups[0].waited_for == "gradients");
  CHECK(found.groups[1].waited_for == "scatters");
}

TEST_CASE("explain: with jitter a group waits for slower workers") {
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}}), support::pair_of(4, 0.01), 8,
                    {.jitter = {.sigma = 0.5, .seed = 1}});
  const Explanation found = explained(scene, R"("sync-easgd")");
  CHECK(found.groups[0].waited_for == "workers");
}

/// The row of the values, each the index of a value of an input.
const WhatIf& together(const CombinedWhatIfs& all, const std::vector<std::size_t>& values) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < values.size(); ++i) row = row * all.inputs[i].values.size() + values[i];
  REQUIRE(all.rows.at(row).has_value());
  return *all.rows[row];
}

TEST_CASE("explain: changes of several inputs are combined, and one alone is as it is alone") {
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}}), support::pair_of(4, 0.1));
  const auto explained_together = [&](const std::string& json) {
    const Schedule schedule = schedule_of(json);
    return explain(scene.setting, schedule, scene.run(schedule), {}, true);
  };
  const Explanation found = explained_together(R"("wfbp")");
  const CombinedWhatIfs& all = *found.combined;
  REQUIRE(all.rows.size() == 64);
  CHECK(together(all, {0, 0, 0}).change.empty());
  CHECK(together(all, {0, 0, 0}).this_plan_us == found.iteration_us);
  CHECK(together(all, {3, 0, 0}).this_plan_us == found.other[0].this_plan_us);
  CHECK(together(all, {0, 2, 0}).best_plan_us == found.other[3].best_plan_us);
  // without any communication forward and backward are left; with all inputs twice as fast, half the
  // iteration
  CHECK(together(all, {1, 1, 0}).this_plan_us == 60);
  const WhatIf& halved = together(all, {2, 2, 2});
  CHECK(halved.change == "startups half as long, bandwidth twice, compute twice as fast");
  CHECK(halved.this_plan_us == doctest::Approx(found.iteration_us / 2));
  CHECK(halved.best_plan_us <= halved.this_plan_us);
  CHECK(!explained(scene, R"("wfbp")").combined);
  CHECK(explanation_json(found).find("\"combined\"") != std::string::npos);

  const Explanation coded = explained_together(R"({"pipeline": "wfbp", "fusion": "none", "compression":
      {"name": "x", "ratio": 0.5, "encode": {"startup_us": 7}, "collective": "all_gather"}})");
  REQUIRE(coded.combined->inputs.back().name == "encoding and decoding");
  CHECK(together(*coded.combined, {0, 0, 0, 1}).this_plan_us == coded.free[3].this_plan_us);
  CHECK(together(*coded.combined, {1, 1, 0, 1}).this_plan_us == 60);
  CHECK(together(*coded.combined, {1, 1, 0, 0}).this_plan_us == 60 + 2 * 7);
}

}  // namespace
}  // namespace planner
