// Layers that are computed again in the backward pass: their times, and the groups that have to hold them
// whole.

#include "planner/job/recompute.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

core::Profile named(core::Profile profile, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) profile.layers[i].name = names[i];
  return profile;
}

TEST_CASE("recompute: blocks are neighbours whose names agree up to their first number") {
  const core::Profile profile = named(profile_of(std::vector<support::LayerSpec>(7, {1, 1, {1}})),
                                      {"wte", "h.0.attn", "h.0.mlp", "norm", "h.0.late", "h.1.mlp", "head"});
  CHECK(segments_of(profile, {}) == std::vector<Segment>{{1, 2}, {4, 4}, {5, 5}});
  CHECK(segments_of(profile, {.layers = 3}) == std::vector<Segment>{{0, 2}, {3, 5}, {6, 6}});
  CHECK(segments_of(profile, {.layers = 100}) == std::vector<Segment>{{0, 6}});
  CHECK(segments_of(profile_of({{1, 1, {1}}}), {}).empty());
}

TEST_CASE(
    "recompute: the last layer of a segment pays for all, on the device and on the host, before its "
    "gradients") {
  core::Profile profile = profile_of({{2, 5, {10}}, {3, 4, {20, 30}}});
  profile.layers[1].tensors[0].backward_us = 1;
  profile.layers[1].tensors[1].backward_us = 3;
  profile.layers[0].forward_device_us = 1.5;
  profile.layers[0].forward_spread_us = 3;
  profile.layers[1].backward_spread_us = 4;
  for (core::ProfileLayer& layer : profile.layers) layer.forward_host_us = layer.backward_host_us = 1;
  const core::Profile got = recomputed(profile, {.layers = 2});
  CHECK(got.layers[0] == profile.layers[0]);
  const core::ProfileLayer& last = got.layers[1];
  CHECK(last.backward_us == 4 + 2 + 3);
  CHECK(*last.tensors[0].backward_us == 1);
  CHECK(*last.tensors[1].backward_us == 3 + 2 + 3);  // the last tensor's part runs first
  CHECK(*last.backward_device_us == 4 + 1.5 + 3);
  CHECK(*last.backward_host_us == 1 + 1 + 1);
  CHECK(*last.backward_spread_us == 5);
}

// Three layers of 2, 3 and 1 us forward and 5, 4 and 2 us backward; the last two are a block. A phase takes 1
// us, an all-reduce 2 us.
//
//   compute:  F1 F2 F3 [F2 F3 B3] B2  B1         0-2, 2-5, 5-6, 6-12, 12-16, 16-21
//   channel:                      A3  A2  A1     12-14, 16-18, 21-23
TEST_CASE("recompute: a block's gradients are ready after its forward pass was computed again") {
  const core::Profile profile =
      named(profile_of({{2, 5, {1}}, {3, 4, {1}}, {1, 2, {1}}}), {"stem", "h.0.a", "h.0.b"});
  const Scene scene(recomputed(profile, {}), pair_of(2, 0), 2, {.iterations = 1, .recompute = Recompute{}});
  const Run run = scene.run(schedule_of(R"("wfbp")"));
  CHECK(run.metrics.iteration_us == 23);
  CHECK(run.metrics.exposed_communication_us == 2);
  CHECK(scene.setting.workload.gradients[0].ready == sim::from_us(6));
}

TEST_CASE("recompute: groups that are gathered again hold whole segments, and others need not") {
  const core::Profile profile =
      named(profile_of({{2, 5, {1}}, {3, 4, {1}}, {1, 2, {1}}}), {"stem", "h.0.a", "h.0.b"});
  const Scene scene(recomputed(profile, {}), pair_of(1, 0), 2, {.iterations = 1, .recompute = Recompute{}});
  CHECK_THROWS_WITH_AS((void)scene.run(schedule_of(R"({"pipeline": "sharded", "fusion": "none"})")),
                       "expected groups that hold all layers that are computed again together, as fusion "
                       "blocks and optimal make them, got a group that holds a part of 'h.0.a' to 'h.0.b'",
                       core::Unsupported);
  for (const char* schedule : {R"({"pipeline": "sharded", "fusion": "blocks"})", R"("wfbp")", R"("zero")",
                               R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false})",
                               R"({"pipeline": "sharded", "fusion": "none", "kept_groups": 2})"})
    CHECK_NOTHROW((void)scene.run(schedule_of(schedule)));
  CHECK_THROWS_WITH_AS(
      (void)scene.run(schedule_of(
          R"({"pipeline": "sharded", "fusion": {"kind": "optimal", "constraints": {"groups": 3}}})")),
      "expected constraints that some grouping of whole recomputed blocks keeps to, got constraints that "
      "none does",
      core::Unsupported);
}

TEST_CASE("recompute: no grouping of whole segments beats `optimal`") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Recompute recompute = {.layers = random.between(2, 3)};
    const core::Profile profile = recomputed(support::random_profile(random, 5), recompute);
    const Scene scene(profile, pair_of(static_cast<double>(random.below(60)), 0.01), 2,
                      {.iterations = 2, .recompute = recompute});
    const auto& gradients = scene.setting.workload.gradients;
    if (gradients.size() > 9) continue;
    ++compared;
    const Run optimal = scene.run(schedule_of(R"({"pipeline": "sharded", "fusion": "optimal"})"));
    const double bound_us = optimal.metrics.iteration_us - sim::to_us(optimal.proof->optimality_gap);
    const auto run_of = [&](std::uint32_t gradient) { return gradients[gradient].layer / recompute.layers; };
    const auto ends_a_run = [&](std::uint32_t cut) {
      return cut == 0 || cut == gradients.size() || run_of(cut) != run_of(cut - 1);
    };
    const auto is_whole = [&](const Groups& groups) {
      return std::ranges::all_of(groups, [&](const Group& group) { return ends_a_run(group.end); });
    };
    const Schedule fsdp = schedule_of(R"("fsdp")");
    const std::vector<TransferCost> transfers = make_transfers(scene.setting, fsdp);
    double best_us = 1e18;
    support::for_each_grouping(
        static_cast<std::uint32_t>(gradients.size()), 1, is_whole, [&](const Groups& groups) {
          const Simulated run = simulate_groups(scene.setting, fsdp, groups, transfers, false);
          best_us = std::min(best_us, summarize(scene.setting, run).iteration_us);
        });
    CHECK(bound_us <= best_us * (1 + 1e-9));
    CHECK(optimal.metrics.iteration_us == best_us);
    CHECK(is_whole(optimal.groups));
  }
  CHECK(compared >= 20);
}

}  // namespace
}  // namespace planner
