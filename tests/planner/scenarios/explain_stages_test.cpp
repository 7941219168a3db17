// Explanations of jobs with pipeline stages: a timeline by hand, and what holds for all of them.

#include "planner/scenarios/explain_stages.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/scenarios/divided_run.hpp"
#include "tests/support/planning.hpp"

namespace {

using planner::Schedule;
using scenarios::Scenario;
using scenarios::StageExplanation;
using scenarios::StageGroupReason;
using support::pair_of;
using support::Random;
using support::schedule_of;

Scenario scenario_of(const core::Profile& profile, const core::Network& network, const std::string& parallel,
                     const planner::Conditions& conditions = {}) {
  return {.name = "s",
          .profile = profile,
          .network = network,
          .workers = {},
          .schedules = {},
          .all_reduce = {},
          .conditions = conditions,
          .job = {},
          .parallel = planner::read_parallel(core::Field::parse(parallel, "s.json")),
          .warnings = {},
          .file = core::Field::parse("{}", "s.json")};
}

StageExplanation explained(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  return scenarios::explain_stages(scenario, schedule, scenarios::run_divided(scenario, workers, schedule));
}

/// Layers 1 and 2 (40 and 80 bytes) and layer 3 (120 bytes); each of the first two takes 1 us forward and 2
/// us backward, the third twice that. On two workers an all-reduce takes 6, 10 and 14 us.
core::Profile three_layers() { return support::profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}); }

const std::string kTwoAndOne =
    R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})";

std::string text(const StageGroupReason& group) {
  const planner::GroupReason& reason = group.reason;
  return fmt::format("stage {} group {}, {} to {}, {} bytes: ready {}, {}-{} after {}, exposed {}, saves {}",
                     group.stage, group.number, reason.first_tensor, reason.last_tensor, reason.bytes,
                     reason.sendable_us, reason.start_us, reason.end_us, reason.waited_for, reason.exposed_us,
                     group.saves_us);
}

const planner::WhatIf& change(const std::vector<planner::WhatIf>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const planner::WhatIf& each) { return each.change == name; });
  REQUIRE(found != all.end());
  return *found;
}

// reading 0-5, then
// stage 0  F1 F2      B1      B2.2 B2.1                update
//          5  7  9    13  17  19   21   23             37   40
//   channel                         [R1 21-31][R2 31-37]
// stage 1     F1 B1   F2 B2
//          5  7  9    13 15   19
//   channel                   [R1 19-33]
//
// Without time for R1 of stage 0, R2 runs 23-29, and stage 1 ends last, at 33; likewise without R2.
TEST_CASE("stage explanation: when groups are sent, and what the iteration is without them") {
  planner::Conditions conditions;
  conditions.read_us = 5;
  conditions.read_is_overlapped = false;
  conditions.optimizer_us = 3;
  const Scenario scenario = scenario_of(three_layers(), pair_of(2, 0.1), kTwoAndOne, conditions);
  const StageExplanation found = explained(scenario, 4, schedule_of(R"("wfbp")"));
  CHECK(found.iteration_us == 40);
  CHECK(found.without_collectives_us == 26);
  REQUIRE(found.groups.size() == 3);
  CHECK(text(found.groups[0]) ==
        "stage 0 group 0, l2.a to l2.a, 80 bytes: ready 21, 21-31 after gradients, exposed 8, saves 4");
  CHECK(text(found.groups[1]) ==
        "stage 0 group 1, l1.a to l1.a, 40 bytes: ready 23, 31-37 after channel, exposed 6, saves 4");
  CHECK(text(found.groups[2]) ==
        "stage 1 group 0, l3.a to l3.a, 120 bytes: ready 19, 19-33 after gradients, exposed 10, saves 0");
  CHECK(found.groups[0].reason.merging_costs_us == 0);  // R 23-37
  CHECK_FALSE(found.groups[1].reason.merging_costs_us);
  CHECK_FALSE(found.groups[1].reason.splitting_costs_us);
  REQUIRE(found.stages.size() == 2);
  CHECK(found.stages[0].bubble_us == 6);
  CHECK(found.stages[0].communication_us == 16);
  CHECK(found.stages[0].exposed_us == 14);
  CHECK(found.stages[0].saves_us == 4);
  CHECK(found.stages[1].exposed_us == 10);
  CHECK(found.stages[1].saves_us == 0);
  CHECK_FALSE(found.tied_saves_us);

  const StageExplanation merged =
      explained(scenario, 4, schedule_of(R"({"pipeline": "wfbp", "fusion": "all"})"));
  REQUIRE(merged.groups.size() == 2);
  CHECK(merged.groups[0].reason.splitting_costs_us == 0);
  CHECK(merged.groups[0].reason.split_after == "l2.a");
}

// Stage 0 of the drawing above, from 0 on and without the update, if startups (2 us of an all-reduce) take no
// time:
//   B2.2 14-16 B2.1 16-18, R1 16-24, R2 24-28; stage 1 R1 14-26
// if bytes take no time: R1 16-18, R2 18-20; stage 1 14-16
// with half the bandwidth: R1 16-34, R2 34-44; stage 1 R1 14-40. Merged, 18-44.
TEST_CASE("stage explanation: the iteration under changes, with this plan and with the best one") {
  const Scenario scenario = scenario_of(three_layers(), pair_of(2, 0.1), kTwoAndOne);
  const StageExplanation found = explained(scenario, 4, schedule_of(R"("wfbp")"));
  CHECK(change(found.free, "startups").this_plan_us == 28);
  CHECK(change(found.free, "startups").best_plan_us == 28);
  CHECK(change(found.free, "bytes").this_plan_us == 20);
  CHECK(change(found.free, "bytes").best_plan_us == 20);
  CHECK(change(found.free, "forward and backward").this_plan_us == doctest::Approx(16).epsilon(1e-4));
  CHECK(change(found.free, "forward and backward").best_plan_us == doctest::Approx(14).epsilon(1e-4));
  CHECK(found.bound_by == "forward and backward");
  CHECK(change(found.other, "half the bandwidth").this_plan_us == 44);
  CHECK(change(found.other, "half the bandwidth").best_plan_us == 44);
  CHECK(found.free.size() == 3);  // messages between stages take no time here
}

// messages take 3 us: stage 1  F1 5-7 B1 7-11 F2 11-13 B2 13-17, stage 0  F1 0-2 F2 2-4 B1 14-18 B2.2 20-22
// B2.1 22-24
TEST_CASE("stage explanation: messages between stages take time of their own, and not that of bytes") {
  const std::string with_messages =
      std::string(kTwoAndOne).replace(kTwoAndOne.find("\"layers\""), 0, R"("p2p_us": 3, )");
  const Scenario scenario = scenario_of(three_layers(), pair_of(2, 0.1), with_messages);
  const StageExplanation found = explained(scenario, 4, schedule_of(R"("wfbp")"));
  CHECK(found.iteration_us == 38);
  CHECK(change(found.free, "messages between stages").this_plan_us == 32);
  CHECK(change(found.free, "bytes").this_plan_us == 26);
  CHECK(!found.combined);

  const Schedule schedule = schedule_of(R"("wfbp")");
  const StageExplanation together =
      scenarios::explain_stages(scenario, schedule, scenarios::run_divided(scenario, 4, schedule), {}, true);
  const planner::CombinedWhatIfs& all = *together.combined;
  REQUIRE(all.rows.size() == 128);
  const auto this_plan_us = [&](std::size_t startups, std::size_t bandwidth, std::size_t compute,
                                std::size_t messages) {
    return all.rows[((startups * 4 + bandwidth) * 4 + compute) * 2 + messages]->this_plan_us;
  };
  CHECK(all.inputs.back().name == "messages between stages");
  CHECK(this_plan_us(0, 0, 0, 0) == 38);
  CHECK(this_plan_us(0, 0, 0, 1) == 32);
  CHECK(this_plan_us(0, 1, 0, 0) == 26);
  CHECK(this_plan_us(0, 1, 0, 1) == 20);  // as without messages, above
  CHECK(this_plan_us(2, 2, 2, 0) == 19);
}

TEST_CASE("stage explanation: a proven plan loses by every merge and split, and exposed times add up") {
  std::set<std::string> seen;
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<support::LayerSpec> layers(static_cast<std::size_t>(random.between(4, 8)));
    for (support::LayerSpec& layer : layers)
      layer = {static_cast<double>(random.between(1, 60)),
               static_cast<double>(random.between(1, 60)),
               {random.between(1, 2000), random.between(1, 2000)}};
    const bool is_interleaved = random.one_in(3);
    const char* const orders[] = {"1f1b", "gpipe", "zb-h1"};
    const char* const overlaps[] = {"first_stage", "all_stages", "none"};
    const std::string parallel =
        is_interleaved
            ? R"({"pipeline": 2, "stages": {"schedule": "interleaved", "virtual_stages": 2, "micro_batches": 4}})"
            : fmt::format(
                  R"({{"pipeline": 2, "stages": {{"schedule": "{}", "micro_batches": {}, "overlap": "{}"}}}})",
                  orders[random.below(3)], random.between(1, 4), overlaps[random.below(3)]);
    const char* const schedules[] = {R"({"pipeline": "wfbp", "fusion": "optimal"})", R"("mg-wfbp")",
                                     R"({"pipeline": "zero", "fusion": "none"})",
                                     R"({"pipeline": "sharded", "fusion": "none"})"};
    const Schedule schedule = schedule_of(schedules[random.below(4)]);
    const Scenario scenario =
        scenario_of(support::profile_of(layers), support::random_link(random), parallel);
    const planner::ParallelRun run = scenarios::run_divided(scenario, 8, schedule);
    const StageExplanation found = scenarios::explain_stages(scenario, schedule, run);
    if (run.is_exact) seen.insert("exact");
    std::vector<double> exposed(found.stages.size());
    for (const StageGroupReason& group : found.groups) {
      const auto stage = static_cast<std::size_t>(group.stage);
      exposed[stage] += group.reason.exposed_us;
      seen.insert(group.reason.waited_for);
      CHECK(group.reason.sendable_us <= group.reason.start_us);
      CHECK(group.reason.start_us < group.reason.end_us);
      CHECK(group.saves_us >= 0);
      CHECK(group.saves_us <= found.stages[stage].saves_us);
      for (const auto& costs : {group.reason.merging_costs_us, group.reason.splitting_costs_us})
        if (costs && run.is_exact) CHECK(*costs >= 0);
    }
    for (std::size_t stage = 0; stage < exposed.size(); ++stage) {
      CHECK(found.stages[stage].exposed_us == doctest::Approx(exposed[stage]).epsilon(1e-9));
      CHECK(found.stages[stage].saves_us <= found.iteration_us - found.without_collectives_us);
    }
    CHECK(found.iteration_us - found.without_collectives_us ==
          doctest::Approx(run.metrics.exposed_communication_us).epsilon(1e-9));
    for (const std::vector<planner::WhatIf>& all : {found.free, found.other})
      for (const planner::WhatIf& each : all) CHECK(each.best_plan_us <= each.this_plan_us);
  }
  if (!support::kSanitized) CHECK(seen == std::set<std::string>{"channel", "exact", "gradients", "pass"});
}

// The last stage takes 0.4 us, of which a millionth is shorter than the clock can tell: compute is then
// divided by 40,000 alone, and takes 2,400 us / 40,000 = 0.06 us. Where times are near the limit of the
// clock, "twice as slow" is left out.
TEST_CASE("stage explanation: changes keep times that the clock can tell") {
  const Scenario scenario = scenario_of(
      support::profile_of({{100, 200, {1000}}, {100, 200, {1000}}, {0.2, 0.2, {1000}}}), pair_of(2, 0.001),
      R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 4, "layers": [2, 1]}})");
  const StageExplanation found = explained(scenario, 4, schedule_of(R"("wfbp")"));
  const double sent_us = 2 * (2 + 4);  // stage 0, two groups of 4,000 bytes
  CHECK(change(found.free, "forward and backward").this_plan_us ==
        doctest::Approx(sent_us + 0.06).epsilon(1e-2));
  CHECK(found.bound_by == "forward and backward");
  CHECK(found.other.size() == 6);

  const Scenario longest =
      scenario_of(support::profile_of({{2e12, 2e12, {1000}}, {1, 1, {1000}}}), pair_of(2, 0.001),
                  R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 1}})");
  const StageExplanation other = explained(longest, 4, schedule_of(R"("wfbp")"));
  CHECK(other.other.size() == 5);
  CHECK(std::ranges::none_of(
      other.other, [](const planner::WhatIf& each) { return each.change == "compute twice as slow"; }));
}

// 5,000 micro-batches are 20,000 passes, beside 1,200 tensors.
TEST_CASE("stage explanation: without merging and splitting where that takes too long") {
  const support::LayerSpec layer = {1, 2, std::vector<std::int64_t>(600, 10)};
  Scenario scenario = scenario_of(support::profile_of({layer, layer}), pair_of(2, 0.1),
                                  R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 4}})");
  const Schedule schedule = schedule_of(R"({"pipeline": "wfbp", "fusion": "all"})");
  const StageExplanation usual = explained(scenario, 4, schedule);
  CHECK(usual.tries_other_groups);
  CHECK(usual.groups.front().reason.splitting_costs_us);
  scenario.parallel->stages.micro_batches = 5000;
  const StageExplanation found = explained(scenario, 4, schedule);
  CHECK_FALSE(found.tries_other_groups);
  CHECK_FALSE(found.groups.front().reason.splitting_costs_us);
  CHECK(scenarios::stage_explanation_text(found).find("merging and splitting were not tried") !=
        std::string::npos);
}

TEST_CASE("stage explanation: a job with too many passes is refused") {
  const Scenario scenario =
      scenario_of(three_layers(), pair_of(2, 0.1),
                  R"({"pipeline": 1, "stages": {"schedule": "1f1b", "micro_batches": 10000}})");
  const Schedule schedule = schedule_of(R"({"pipeline": "sharded", "fusion": "none"})");
  planner::ParallelRun run = scenarios::run_divided(scenario, 4, schedule);
  while (run.graph.tasks.size() <= scenarios::kMaxExplainedTasks)
    run.graph.tasks.resize(2 * run.graph.tasks.size());
  CHECK_THROWS_WITH_AS((void)scenarios::explain_stages(scenario, schedule, run),
                       doctest::Contains("stages of at most 500000 tasks"), core::Unsupported);
}

}  // namespace
