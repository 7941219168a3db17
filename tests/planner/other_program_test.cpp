// A pipeline without a model: planners simulate its groupings and report a bound on the loss.

#include <doctest/doctest.h>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/simulate_iteration.hpp"
#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using sim::Time;
using support::Random;
using support::Scene;

/// All-reduces during backward; the next forward pass waits for them layer by layer.
Program layer_by_layer(std::uint32_t groups, const PipelineOptions& /*options*/) {
  Program out;
  out.update = Update::by_group;
  for (std::uint32_t group = 0; group < groups; ++group)
    out.ops.push_back({core::CollectiveKind::all_reduce, group, Issue::gradients, Delivers::own_layers});
  return out;
}

TEST_CASE("other program: a pipeline that no model knows is planned by simulation, within its bound") {
  const Pipeline pipeline = {.name = "other", .summary = "", .option_keys = {}, .program = layer_by_layer};
  int better = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = support::small_scene(random, 6, support::NetworkKind::affine);
    const FusionRequest request(scene->setting, pipeline, {}, make_transfers(scene->setting, Transfer{}, {}));
    const OptimalGroups found = request.model().optimal({});
    CHECK(support::covers(found.groups, scene->setting.workload));
    CHECK(found.value == simulate_iteration(request, found.groups));
    Time best = Time::max();
    Time worst{};
    support::for_each_grouping(request.workload.gradient_count(), 1, support::any_grouping,
                               [&](const Groups& groups) {
                                 best = std::min(best, simulate_iteration(request, groups));
                                 worst = std::max(worst, simulate_iteration(request, groups));
                               });
    CHECK(found.value >= best);
    CHECK(found.value - found.optimality_gap <= best);
    CHECK(request.model().lower_bound() <= best + Time(request.workload.gradient_count()));
    better += found.value < worst ? 1 : 0;
  }
  CHECK(better > 10);
}

}  // namespace
}  // namespace planner
