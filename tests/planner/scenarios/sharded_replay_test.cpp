// FSDP with the groups of a traced job.

#include "planner/scenarios/sharded_replay.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "planner/scenarios/replay.hpp"
#include "planner/scenarios/run.hpp"

namespace scenarios {
namespace {

using core::ProfileLayer;
using core::ShardedGroups;

/// An embedding, a block and a head of which the model owns the first and the last.
core::Profile three_layers() {
  return {.model = "three",
          .device = "none",
          .origin = {.kind = core::OriginKind::measured, .source = "made"},
          .layers = {{.name = "embed",
                      .kind = "embedding",
                      .forward_us = 10,
                      .backward_us = 20,
                      .tensors = {{.name = "embed.weight", .elements = 1000, .backward_us = 20}}},
                     {.name = "block",
                      .kind = "linear",
                      .forward_us = 100,
                      .backward_us = 200,
                      .tensors = {{.name = "block.weight", .elements = 2000, .backward_us = 200}}},
                     {.name = "head",
                      .kind = "linear",
                      .forward_us = 30,
                      .backward_us = 60,
                      .tensors = {{.name = "head.weight", .elements = 1500, .backward_us = 50},
                                  {.name = "head.bias", .elements = 500, .backward_us = 10}}}},
          .iteration = core::ProfileIteration{}};
}

ShardedGroups two_groups() {
  return {.groups = {{.tensors = {"block.weight"}, .is_gathered_again = true},
                     {.tensors = {"head.bias", "head.weight", "embed.weight"}, .is_gathered_again = false}}};
}

core::Network network() {
  return core::read_network(core::Field::parse(R"({
    "format": "fusewise.network", "version": 1, "name": "made",
    "origin": {"kind": "measured", "source": "made"},
    "measured": [{"collective": "all_gather", "workers": 2, "curve": [[8000, 40], [12000, 60]]},
                 {"collective": "reduce_scatter", "workers": 2, "curve": [[8000, 50], [12000, 70]]}]})",
                                               "n.json"));
}

/// The names of a layer's tensors.
std::vector<std::string> tensors(const ProfileLayer& layer) {
  std::vector<std::string> out;
  for (const core::ProfileTensor& tensor : layer.tensors) out.push_back(tensor.name);
  return out;
}

using Names = std::vector<std::string>;

TEST_CASE(
    "sharded replay: gradients that wait for the group come behind the groups before, and layers keep their "
    "times") {
  const core::Profile grouped = in_groups(three_layers(), two_groups());
  CHECK(tensors(grouped.layers[0]) == Names{"embed.weight"});
  CHECK(tensors(grouped.layers[1]) == Names{"head.weight", "head.bias", "block.weight"});
  CHECK(grouped.layers[2].tensors.empty());
  CHECK(grouped.layers[1].tensors[0].backward_us == 0.0);
  CHECK(grouped.layers[1].tensors[2].backward_us == 200.0);
  CHECK(core::backward_us(grouped) == 280);
}

TEST_CASE("sharded replay: the time of a gradient that leaves a layer goes to the next one that stays") {
  const ShardedGroups sharded = {.groups = {{.tensors = {"head.weight"}},
                                            {.tensors = {"block.weight"}},
                                            {.tensors = {"head.bias", "embed.weight"}}}};
  const core::Profile grouped = in_groups(three_layers(), sharded);
  CHECK(tensors(grouped.layers[2]) == Names{"head.weight"});
  CHECK(grouped.layers[2].tensors[0].backward_us == 60.0);
}

TEST_CASE("sharded replay: groups in backward order leave the profile as it is, and their plan is whole") {
  const ShardedGroups sharded = {
      .groups = {{.tensors = {"head.bias", "head.weight"}}, {.tensors = {"block.weight", "embed.weight"}}}};
  CHECK(in_groups(three_layers(), sharded) == three_layers());
  CHECK(plan_of_neighbours(three_layers(), sharded, 2, true).divided == 0);
}

TEST_CASE("sharded replay: an iteration whose collectives block, worked out by hand") {
  // Gathers: the model's 3000 elements, 60 us, then the block's 2000, 40 us; the block's again before its
  // backward pass, 40 us. Scatters: 50 us and 70 us. Layers: 140 us and 280 us.
  core::Profile profile = three_layers();
  const MeasuredIteration measured = {.iteration_us = 680,
                                      .exposed_us = 260,
                                      .collectives_block = true,
                                      .gathers = core::Gathers::for_forward_and_backward,
                                      .sharded = two_groups()};
  const Replay out = replay(profile, network(), measured);
  CHECK(out.predicted_us == doctest::Approx(680));
  CHECK(out.exposed_us == doctest::Approx(260));
  CHECK(out.buckets == 2);
  CHECK(out.divided == 1);
  CHECK(profile.layers == three_layers().layers);  // what is written is what was measured
  const auto plan = nlohmann::json::parse(out.plan);
  CHECK(plan["groups"].size() == 3);
  CHECK(plan["kept_groups"] == 1);
  const Scenario scenario = repeated(profile, network(), measured);
  CHECK(scenario.schedules.front().name == "fsdp");
  CHECK(run(scenario).entries.front().metrics.iteration_us == doctest::Approx(680));
}

TEST_CASE("sharded replay: what was gathered ahead and scattered beside compute is simulated so") {
  ShardedGroups sharded = two_groups();
  sharded.prefetch = 2;
  sharded.are_of_fsdp2 = true;
  const auto schedule =
      nlohmann::json::parse(schedule_of_groups(in_groups(three_layers(), sharded), sharded, 2, false));
  CHECK(schedule["prefetch"] == 2);
  CHECK(schedule["backward_prefetch"] == 1);
  CHECK(schedule["scatters_in_flight"] == 1);
  CHECK(schedule["gather_early"] == true);
  CHECK(schedule["kept_groups"] == 0);
}

}  // namespace
}  // namespace scenarios
