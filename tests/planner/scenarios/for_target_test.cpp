// Plans for a framework: the best of all groups that it can form, as it behaves.

#include "planner/scenarios/for_target.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/advise/make_plan.hpp"
#include "planner/emit/emitters/modules.hpp"
#include "planner/job/registry.hpp"
#include "tests/support/brute_force.hpp"

namespace scenarios {
namespace {

using planner::Behaviour;
using planner::Groups;
using planner::Schedule;
using planner::Target;
using support::Random;
using support::Scene;

const Target& target_of(std::string_view name) { return planner::entry(planner::emitters(), name).target(); }

std::vector<std::string_view> all_targets() {
  std::vector<std::string_view> out;
  for (const planner::Emitter& emitter : planner::emitters())
    if (emitter.target != nullptr) out.push_back(emitter.name);
  return out;
}

planner::PlanFile planned_as(const Schedule& schedule) {
  planner::PlanFile out;
  out.pipeline = schedule.pipeline->name;
  out.options = schedule.options;
  return out;
}

/// A schedule for a scene, planned for a framework.
struct PlannedFor {
  const Scene& scene;
  const Target& target;
  Schedule offered;
  ForTarget found;
  Prices prices;
  Behaviour behaviour;

  PlannedFor(const Scene& its_scene, std::string_view name, const std::string& json)
      : scene(its_scene),
        target(target_of(name)),
        offered(schedule_for(target, support::schedule_of(json))),
        found(plan_for(target, scene.setting, offered, {})),
        prices(scene.setting, offered, {}),
        behaviour(target.behaves(planned_as(offered), scene.setting.workload)) {}

  sim::Time value(const Groups& groups) {
    return planner::simulate_iteration(prices.request_for(behaviour), groups);
  }
  std::size_t transfers() { return prices.request_for(behaviour).transfers.size(); }
  double value_us() const { return found.run.metrics.iteration_us; }

  planner::PlanFile plan() const {
    planner::PlanFile out = planner::make_plan(scene.setting, found.schedule, found.run);
    out.target = target.name;
    return out;
  }
  nlohmann::ordered_json emission() const {
    Prices own(scene.setting, found.schedule, {});
    const planner::PlanFile file = plan();
    return planner::emit(target.name,
                         {.plan = file,
                          .groups = found.run.groups,
                          .workload = scene.setting.workload,
                          .iteration_us = [&](const Behaviour& as,
                                              const Groups& groups) { return own.iteration_us(as, groups); }})
        .json;
  }
};

/// Gradients of at most 60 elements, so that every number can be tried.
std::unique_ptr<Scene> small_scene(Random& random, std::uint32_t max_layers = 5, bool is_tied = false) {
  std::vector<support::LayerSpec> layers(1 + random.below(max_layers));
  for (support::LayerSpec& layer : layers) {
    layer = {.forward_us = static_cast<double>(random.below(80)),
             .backward_us = static_cast<double>(random.below(160)),
             .elements = {random.between(1, 60)}};
    if (random.one_in(3)) layer.elements.push_back(random.between(1, 60));
  }
  layers.front().backward_us += 1;
  planner::Conditions conditions;
  conditions.optimizer_us = random.one_in(2) ? 16 : 0;
  core::Profile profile = support::profile_of(layers);
  if (is_tied) {
    profile.layers.front().kind = "embedding";
    profile.layers.push_back({.name = "head", .kind = "linear", .forward_us = 20, .backward_us = 40});
  }
  return std::make_unique<Scene>(
      std::move(profile), support::pair_of(random.below(60), 0.25 * (1 + random.below(8))), 2, conditions);
}

bool cuts_a_module(const planner::Workload& workload, const Groups& groups) {
  const Groups modules = planner::module_units(workload, planner::Nesting::allowed).whole;
  return std::ranges::any_of(groups, [&](const planner::Group& group) {
    return std::ranges::any_of(modules, [&](const planner::Group& module) {
      return module.begin < group.end && group.end < module.end;
    });
  });
}

TEST_CASE("--for: DDP gets the best of all groups, and a hook the best of all of one compressor") {
  for (std::uint32_t seed = 0; seed < support::seeds(80); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random);
    const std::uint32_t count = scene->setting.workload.gradient_count();
    const std::string offers = fmt::format(
        R"({{"pipeline": "{}", "fusion": {{"kind": "optimal", "choices": {{"compression": [
            {{"name": "fp16", "ratio": 0.5, "collective": "all_reduce", "encode": {{"startup_us": {}}}}},
            {{"name": "bf16", "ratio": 0.5, "collective": "all_reduce", "decode": {{"startup_us": {}}}}},
            "dgc"]}}}}}})",
        random.one_in(2) ? "wfbp" : "after_backward", random.below(30), random.below(30));
    for (const char* name : {"ddp", "comm-hook"}) {
      CAPTURE(name);
      PlannedFor planned(*scene, name, offers);
      const bool has_hooks = std::string_view(name) == "comm-hook";
      REQUIRE(planned.transfers() == (has_hooks ? 3 : 1));
      sim::Time best = sim::Time::max();
      for (std::uint32_t transfer = 0; transfer < planned.transfers(); ++transfer)
        support::for_each_grouping(count, 1, support::any_grouping, [&](Groups groups) {
          for (planner::Group& group : groups) group.transfer = transfer;
          best = std::min(best, planned.value(groups));
        });
      CHECK(planned.value_us() == sim::to_us(best));
      CHECK(planned.found.run.proof.value().optimality_gap == sim::Time::zero());
    }
  }
}

TEST_CASE(
    "--for: Horovod's groups are issued on its ticks of 1 ms, with a bound, and emitted at that price") {
  for (std::uint32_t seed = 0; seed < support::seeds(40); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random);
    PlannedFor planned(*scene, "horovod", R"("fusewise")");
    sim::Time best = sim::Time::max();
    support::for_each_grouping(
        scene->setting.workload.gradient_count(), 1, support::any_grouping, [&](const Groups& groups) {
          best = std::min(best, planned.value(planned.target.issued(scene->setting.workload, groups)));
        });
    for (const planner::Group& group : planned.found.run.groups) {
      CHECK(group.tick % std::chrono::milliseconds(1) == sim::Time::zero());
      CHECK(group.tick >= scene->setting.workload.gradients[group.end - 1].ready);
    }
    const sim::Time gap = planned.found.run.proof.value().optimality_gap;
    CHECK(planned.value_us() >= sim::to_us(best));
    CHECK(planned.value_us() - sim::to_us(gap) <= sim::to_us(best));
    const nlohmann::ordered_json emission = planned.emission();
    CHECK(emission["cycle_ms"] == 1);
    CHECK(emission["makes"]["iteration_us"] == planned.value_us());
    CHECK(emission["groups_reproduced"] == true);
  }
}

TEST_CASE("--for: where one number makes the groups, the best of all numbers is found") {
  for (std::uint32_t seed = 0; seed < support::seeds(80); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random);
    for (const char* name : {"deepspeed", "megatron", "trainers"})
      for (const char* pipeline : {R"({"pipeline": "wfbp"})", R"({"pipeline": "zero"})",
                                   R"({"pipeline": "zero", "overlap_gather": false})"}) {
        CAPTURE(name);
        PlannedFor planned(*scene, name, pipeline);
        const planner::CapRule rule = planned.target.rule(scene->setting.workload, planned.behaviour, {});
        sim::Time best = sim::Time::max();
        for (std::int64_t number = 1; number <= 60 * 10 + 64 * 10; ++number)
          best = std::min(best, planned.value(rule(number).groups));
        CHECK(planned.value_us() == sim::to_us(best));
        CHECK(planned.found.run.proof.value().optimality_gap == sim::Time::zero());
      }
  }
}

TEST_CASE("--for: FSDP2 and TorchInductor get groups of whole modules, with a bound") {
  int exact = 0;
  int heuristic = 0;
  for (std::uint32_t seed = 0; seed < 90; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, 5, seed % 3 == 2);
    const planner::Workload& workload = scene->setting.workload;
    for (const char* name : {"fsdp", "inductor"})
      for (const char* pipeline :
           {R"({"pipeline": "wfbp"})", R"({"pipeline": "sharded"})",
            R"({"pipeline": "sharded", "prefetch": 2})", R"({"pipeline": "sharded", "kept_groups": 2})"}) {
        if (workload.gradient_count() < 2) continue;  // fewer groups than are kept
        CAPTURE(name);
        CAPTURE(pipeline);
        PlannedFor planned(*scene, name, pipeline);
        CHECK_FALSE(cuts_a_module(workload, planned.found.run.groups));
        sim::Time best = sim::Time::max();
        support::for_each_grouping(
            workload.gradient_count(), 1,
            [&](const Groups& groups) { return !cuts_a_module(workload, groups); },
            [&](const Groups& groups) { best = std::min(best, planned.value(groups)); });
        const sim::Time found = planned.value(planned.found.run.groups);
        const sim::Time gap = planned.found.run.proof.value().optimality_gap;
        CHECK(planned.value_us() == sim::to_us(found));
        CHECK(found >= best);
        CHECK(found - gap <= best);
        (gap == sim::Time::zero() ? exact : heuristic) += 1;
      }
  }
  CHECK(exact > 0);
  CHECK(heuristic < 30);  // most are exact, as whole modules are whole layers
}

TEST_CASE("--for: a plan is emitted as it is, at its price, and no other is faster where it is exact") {
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 8), support::random_link(random));
    for (const std::string_view name : all_targets())
      for (const char* json :
           {R"({"name": "fusewise"})", R"({"pipeline": "zero"})", R"({"name": "fsdp2"})"}) {
        CAPTURE(name);
        CAPTURE(json);
        const Schedule own = support::schedule_of(json);
        if (name == "deepspeed" && own.pipeline->name == "sharded") {  // emitted, but not searched
          CHECK_THROWS_AS(PlannedFor(scene, name, json), core::InputError);
          continue;
        }
        const PlannedFor planned(scene, name, json);
        const nlohmann::ordered_json emission = planned.emission();
        CHECK(emission["groups_reproduced"] == true);
        CHECK(emission["makes"]["loss_us"] == 0);
        CHECK(emission["makes"]["iteration_us"].get<double>() ==
              doctest::Approx(planned.value_us()).epsilon(1e-9));
        if (planned.plan().optimality != planner::Optimality::exact) continue;
        // the plan of the schedule's own pipeline, as the framework makes it
        const planner::Run run = planner::run(scene.setting, own);
        const planner::PlanFile other = planner::make_plan(scene.setting, own, run);
        Prices prices(scene.setting, own, {});
        const planner::Emission emitted =
            planner::emit(name, {.plan = other,
                                 .groups = run.groups,
                                 .workload = scene.setting.workload,
                                 .iteration_us = [&](const Behaviour& as, const Groups& groups) {
                                   return prices.iteration_us(as, groups);
                                 }});
        CHECK(planned.value_us() <= emitted.json["makes"]["iteration_us"].get<double>() * (1 + 1e-12));
      }
  }
}

TEST_CASE("--for: a pipeline that no framework has is planned as wfbp, and constraints hold") {
  Random random(1);
  const auto scene = small_scene(random, 6);
  for (const char* json : {R"({"pipeline": "priority"})", R"({"pipeline": "parameter_server"})"})
    CHECK(PlannedFor(*scene, "ddp", json).offered.pipeline->name == "wfbp");
  const std::uint32_t count = scene->setting.workload.gradient_count();
  const std::string json = R"({"fusion": {"kind": "optimal", "constraints": {"groups": 1}}})";
  for (const std::string_view name : all_targets())
    CHECK(PlannedFor(*scene, name, json).found.run.groups.size() == 1);
  const std::string each =
      fmt::format(R"({{"fusion": {{"kind": "optimal", "constraints": {{"groups": {}}}}}}})", count);
  CHECK(PlannedFor(*scene, "ddp", each).found.run.groups.size() == count);
  const Scene even(support::gradients_of({{10, 40}, {10, 40}, {10, 40}}), support::pair_of(1, 1));
  CHECK_THROWS_AS(
      PlannedFor(
          even, "deepspeed",
          R"({"fusion": {"kind": "optimal", "constraints": {"apart": [["l3.a", "l2.a"]], "max_group_bytes": 80, "groups": 2}}})"),
      core::Unsupported);
}

/// The fastest grouping that a framework can form.
template <typename CanForm>
sim::Time best_of(PlannedFor& planned, CanForm can_form) {
  sim::Time best = sim::Time::max();
  support::for_each_grouping(planned.scene.setting.workload.gradient_count(), 1, can_form,
                             [&](const Groups& groups) { best = std::min(best, planned.value(groups)); });
  return best;
}

TEST_CASE("--for: TorchInductor leaves parameters of the model itself alone, whatever lies between them") {
  // Backward yields end, c, b, a and start; the buckets are made of a, b and c.
  const auto can_form = [](const Groups& groups) {
    return groups.front().end == 1 && groups.back().end - groups.back().begin == 1;
  };
  for (const double startup_us : {0.0, 30.0, 300.0}) {
    CAPTURE(startup_us);
    const Scene scene(support::named({{"start", 10}, {"a.w", 400}, {"b.w", 300}, {"c.w", 200}, {"end", 10}}),
                      support::pair_of(startup_us, 0.25));
    PlannedFor planned(scene, "inductor", R"({"pipeline": "wfbp"})");
    CHECK(can_form(planned.found.run.groups));
    CHECK(planned.value_us() == sim::to_us(best_of(planned, can_form)));
    CHECK(planned.emission()["groups_reproduced"] == true);
  }
}

TEST_CASE("--for: where joined modules break a constraint, other groups are searched") {
  // Backward yields c, b, a.x and a; a bucket that holds a takes a.x, too. Three groups are wanted, so c and
  // b are alone, though c and b together, a.x and a alone would be faster with a large a.x.
  const auto can_form = [](const Groups& groups) { return groups.size() == 3 && groups.back().begin <= 2; };
  for (const std::int64_t elements : {10, 1000, 4000}) {
    CAPTURE(elements);
    const Scene scene(support::named({{"a.w", 400}, {"a.x.w", elements}, {"b.w", 4}, {"c.w", 4}}),
                      support::pair_of(50, 0.25));
    PlannedFor planned(
        scene, "inductor",
        R"({"pipeline": "wfbp", "fusion": {"kind": "optimal", "constraints": {"groups": 3}}})");
    CHECK(can_form(planned.found.run.groups));
    CHECK(planned.value_us() == sim::to_us(best_of(planned, can_form)));
    CHECK(planned.emission()["groups_reproduced"] == true);
  }
}

TEST_CASE("--for: constraints that whole modules cannot keep to are refused") {
  const auto refusal = [](const Scene& scene, const char* target, const std::string& constraints) {
    try {
      PlannedFor(scene, target,
                 fmt::format(R"({{"fusion": {{"kind": "optimal", "constraints": {}}}}})", constraints));
    } catch (const core::Unsupported& problem) {
      CHECK(problem.pointer() == "/schedules");
      return problem.expected();
    }
    return std::string();
  };
  const Scene two(support::named({{"m.a", 100}, {"m.b", 100}, {"z.w", 100}}), support::pair_of(1, 1));
  for (const char* target : {"fsdp", "inductor"}) {
    CAPTURE(target);
    for (const char* constraints :
         {R"({"max_group_bytes": 799})", R"({"groups": 3})", R"({"apart": [["m.a", "m.b"]]})"}) {
      CAPTURE(constraints);
      CHECK(refusal(two, target, constraints) == "constraints that groups of whole modules can satisfy");
    }
    CHECK(refusal(two, target, R"({"max_group_bytes": 800, "groups": 2})").empty());
  }
  // A bucket that holds a takes a.x, too.
  const Scene nested(support::named({{"a.w", 100}, {"a.x.w", 100}}), support::pair_of(1, 1));
  CHECK(refusal(nested, "inductor", R"({"groups": 2})") ==
        "constraints that hold for the groups that modules form, which join modules that lie in one another");
  CHECK(refusal(nested, "fsdp", R"({"groups": 2})").empty());
}

TEST_CASE("--for: a hook chooses among compressors, not among algorithms") {
  const Scene scene(support::gradients_of({{10, 4000}, {10, 4000}, {10, 4000}}), support::link_of(30, 1), 8);
  PlannedFor planned(scene, "comm-hook", R"({"fusion": {"kind": "optimal", "choices": {
      "all_reduce": ["binary_tree"], "compression": ["fp16"]}}})");
  CHECK(planned.transfers() == 2);
  sim::Time best = sim::Time::max();
  support::for_each_grouping(3, 2, support::any_grouping, [&](const Groups& groups) {
    if (std::ranges::all_of(
            groups, [&](const planner::Group& group) { return group.transfer == groups.front().transfer; }))
      best = std::min(best, planned.value(groups));
  });
  CHECK(planned.value_us() == sim::to_us(best));
}

}  // namespace
}  // namespace scenarios
