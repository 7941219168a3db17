// Plan files: written plans read back unchanged, and simulation confirms their predictions.

#include "planner/plan/plan_file.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "tests/support/listed.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/advise/make_plan.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

PlanFile read(const std::string& text) { return read_plan_file(core::Field::parse(text, "p.json")); }

PlanFile plan_of(const Scene& scene, const Schedule& schedule) {
  return make_plan(scene.setting, schedule, scene.run(schedule));
}

void check_equal(const PlanFile& a, const PlanFile& b) {
  CHECK(plan_text(a) == plan_text(b));
  CHECK(a.model == b.model);
  CHECK(a.workers == b.workers);
  CHECK(a.pipeline == b.pipeline);
  CHECK(a.target == b.target);
  CHECK(a.options == b.options);
  CHECK(a.all_reduce == b.all_reduce);
  CHECK(a.optimality == b.optimality);
  CHECK(a.iteration_us == b.iteration_us);
  CHECK(a.lower_bound_us == b.lower_bound_us);
  REQUIRE(a.compared_with.size() == b.compared_with.size());
  for (std::size_t i = 0; i < a.compared_with.size(); ++i) {
    CHECK(a.compared_with[i].schedule == b.compared_with[i].schedule);
    CHECK(a.compared_with[i].iteration_us == b.compared_with[i].iteration_us);
  }
  REQUIRE(a.groups.size() == b.groups.size());
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    CHECK(a.groups[i].tensors == b.groups[i].tensors);
    CHECK(a.groups[i].modules == b.groups[i].modules);
    CHECK(a.groups[i].bytes == b.groups[i].bytes);
    CHECK(a.groups[i].tick_us == b.groups[i].tick_us);
  }
}

TEST_CASE("plan: what is written reads back the same, to the last bit") {
  PlanFile plan;
  plan.model = "a \"model\"\n";
  plan.workers = 1'000'000;
  plan.pipeline = "zero";
  plan.options.overlap_gather = false;
  plan.target = "deepspeed";
  plan.all_reduce = {.name = "double_binary_tree", .bandwidth_factor = 1.0 / 3};
  plan.optimality = Optimality::exact;
  plan.iteration_us = 0.1;
  plan.lower_bound_us = 1.0 / 3;
  plan.compared_with = {{.schedule = "ddp", .iteration_us = 1e12}};
  plan.groups = {
      {.tensors = {"b", "a/~"}, .modules = {"", "b"}, .bytes = 8'000'000'000'000'000, .tick_us = 0.25},
      {.tensors = {"c"}, .bytes = 1}};
  check_equal(read(plan_text(plan)), plan);
}

TEST_CASE("plan: groups say which modules are called when tensors of others are used") {
  core::Profile profile = profile_of({{2, 5, {10, 10}}, {3, 4, {20}}});
  profile.layers[0].tensors[0].name = "m.q.weight";
  profile.layers[0].tensors[1].name = "m.weight";
  profile.layers[0].module = "m";
  profile.layers[1].module = "l2";
  const Scene scene(profile, pair_of(2, 0.1));
  const PlanFile plan = plan_of(scene, schedule_of(R"({"fusion": {"kind": "layers", "count": 1}})"));
  CHECK(plan.groups[0].tensors == std::vector<std::string>{"l2.a"});
  CHECK(plan.groups[0].modules.empty());
  CHECK(plan.groups[1].tensors == std::vector<std::string>{"m.weight", "m.q.weight"});
  CHECK(plan.groups[1].modules == std::vector<std::string>{"m", "m"});
}

TEST_CASE("plan: the text is the contract's, and holds the numbers worked by hand") {
  // two layers as in pipelines_test.cpp: one group ends at 5 + 9 + 14, separate groups at 25
  const Scene scene(profile_of({{2, 5, {10}}, {3, 4, {20}}}), pair_of(2, 0.1));
  const auto json = nlohmann::ordered_json::parse(plan_text(plan_of(scene, schedule_of(R"("fusewise")"))));
  const auto expected = nlohmann::ordered_json::parse(R"({
    "format": "fusewise.plan", "version": 1, "model": "m", "workers": 2, "pipeline": "wfbp",
    "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "exact",
    "largest_front": 1,
    "predicted": {"iteration_us": 25.0, "lower_bound_us": 23.0,
                  "compared_with": [{"schedule": "wfbp", "iteration_us": 25.0},
                                    {"schedule": "sync-easgd", "iteration_us": 28.0},
                                    {"schedule": "ddp", "iteration_us": 28.0},
                                    {"schedule": "horovod", "iteration_us": 1019.0},
                                    {"schedule": "mg-wfbp", "iteration_us": 25.0}]},
    "groups": [{"tensors": ["l2.a"], "bytes": 80}, {"tensors": ["l1.a"], "bytes": 40}]})");
  CHECK(json == expected);
}

TEST_CASE("plan: it records what is computed again, and warns where it is used with other conditions") {
  const core::Profile profile = profile_of({{2, 5, {10}}, {3, 4, {20}}});
  const auto scene_with = [&](std::optional<core::Dtype> reduce, std::optional<Recompute> recompute) {
    Conditions conditions;
    conditions.data_types.reduce = reduce;
    conditions.recompute = recompute;
    return Scene(profile, pair_of(2, 0.1), 2, conditions);
  };
  const auto warnings = [](const Scene& scene, const PlanFile& plan) {
    std::vector<std::string> out;
    const Run run =
        scene.run(schedule_of(R"({"fusion": {"kind": "plan", "file": )" + plan_text(plan) + "}}"));
    for (const Warning& warning : run.warnings) out.push_back(warning.text);
    return out;
  };
  const auto usual = scene_with({}, {});
  const auto same = scene_with(core::Dtype::float32, {});
  const auto half = scene_with(core::Dtype::bfloat16, {});
  const auto blocks = scene_with({}, Recompute{});
  const auto runs = scene_with({}, Recompute{.layers = 1});
  const Schedule wfbp = schedule_of(R"("wfbp")");
  const PlanFile of_half = read(plan_text(plan_of(half, wfbp)));
  CHECK(of_half.data_types.reduce == core::Dtype::bfloat16);
  CHECK(warnings(half, of_half).empty());
  CHECK(
      warnings(usual, of_half) ==
      std::vector<std::string>{"the plan for model 'm' was made for data types reduce bfloat16, and is used "
                               "with those of the profile"});
  CHECK(warnings(usual, plan_of(same, wfbp)).empty());
  for (const Scene* scene : {&blocks, &runs}) {
    const PlanFile plan = read(plan_text(plan_of(*scene, wfbp)));
    CHECK(plan.recompute == scene->setting.conditions.recompute);
    CHECK(warnings(*scene, plan).empty());
  }
  CHECK(warnings(runs, plan_of(blocks, wfbp)) ==
        std::vector<std::string>{
            "the plan for model 'm' was made for recompute blocks, and is used with runs of 1 layer"});
  CHECK(warnings(usual, plan_of(blocks, wfbp)) ==
        std::vector<std::string>{
            "the plan for model 'm' was made for recompute blocks, and is used with none"});
}

TEST_CASE("plan: it is used with the options that it was made with, which the schedule's own keys change") {
  const Scene scene(profile_of({{2, 5, {10}}, {3, 4, {20}}, {3, 4, {30}}}), pair_of(2, 0.1), 2, {});
  const Schedule made = schedule_of(
      R"({"name": "fsdp2", "prefetch": 2, "backward_prefetch": 0, "kept_groups": 2, "fusion": "none"})");
  const PlanFile plan = plan_of(scene, made);
  const std::string used = R"({"name": "fsdp2", "fusion": {"kind": "plan", "file": )" + plan_text(plan) + "}";
  const Run run = scene.run(schedule_of(used + "}"));
  CHECK(run.warnings.empty());
  CHECK(summarize(scene.setting, run).iteration_us == plan.iteration_us);
  const Schedule changed = schedule_of(used + R"(, "reshard_after_forward": false})");
  CHECK(changed.options.prefetch == 2);
  CHECK(changed.options.reshard_after_forward == false);
  CHECK_FALSE(changed.options.kept_groups);
  const Schedule other =
      schedule_of(R"({"name": "zero2", "fusion": {"kind": "plan", "file": )" + plan_text(plan) + "}}");
  CHECK_FALSE(other.options.prefetch);
}

TEST_CASE("plan: only the optimal fusion is called exact, and groups that follow from a rule are given") {
  const Scene scene(profile_of({{2, 5, {10}}, {3, 4, {20}}}), pair_of(2, 0.1));
  for (const Preset& preset : presets()) {
    CAPTURE(preset.name);
    const Schedule schedule = preset_schedule(preset.name);
    const std::string& kind = schedule.fusion.kind;
    const PlanFile plan = plan_of(scene, schedule);
    CHECK(plan.optimality == (kind == "optimal"                         ? Optimality::exact
                              : kind == "mg-wfbp" || kind == "bayesian" ? Optimality::heuristic
                                                                        : Optimality::given));
    CHECK(read(plan_text(plan)).optimality == plan.optimality);
  }
}

/// The schedule that follows a plan.
Schedule following(const PlanFile& plan) {
  nlohmann::ordered_json json = {
      {"pipeline", plan.pipeline},
      {"fusion", {{"kind", "plan"}, {"file", nlohmann::ordered_json::parse(plan_text(plan))}}}};
  write_options(plan.options, json);
  return schedule_of(json.dump());
}

TEST_CASE("plan: its predicted time is what simulating it gives, and never under its lower bound") {
  for (std::uint32_t seed = 0; seed < support::seeds(60); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 9);
    const Scene scene(profile, support::random_link(random), random.between(1, 9),
                      support::random_conditions(random));
    std::vector<Schedule> schedules = {
        schedule_of(R"({"pipeline": "zero", "overlap_gather": false, "fusion": "groups"})"),
        schedule_of(R"({"fusion": {"kind": "threshold", "cap_bytes": 9000, "cycle_us": 33.3}})"),
        schedule_of(R"({"pipeline": "dear", "prefetch": 2, "fusion": "groups"})"),
        schedule_of(R"({"pipeline": "sharded", "prefetch": 0, "reshard_after_forward": true})"),
        schedule_of(R"({"pipeline": "priority", "partition_bytes": 700, "credit_bytes": 900})"),
        schedule_of(R"({"pipeline": "parameter_server", "servers": 3})")};
    for (const Preset& preset : presets()) schedules.push_back(preset_schedule(preset.name));
    for (const Schedule& schedule : schedules) {
      CAPTURE(schedule.name);
      const PlanFile plan = read(plan_text(plan_of(scene, schedule)));
      const Run run = scene.run(following(plan));
      CHECK(run.metrics.iteration_us == plan.iteration_us);
      CHECK(run.groups == scene.run(schedule).groups);
      CHECK(plan.lower_bound_us <= plan.iteration_us + 1e-6 * static_cast<double>(plan.groups.size()));
      std::int64_t bytes = 0;
      for (const PlanGroup& group : plan.groups) bytes += group.bytes;
      CHECK(bytes == scene.setting.workload.bytes());
      for (const ComparedPlan& other : plan.compared_with)
        CHECK(other.iteration_us == scene.run(preset_schedule(other.schedule)).metrics.iteration_us);
    }
  }
}

TEST_CASE("plan: the lower bound is under every grouping, not only the fusions that are built") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const bool measured = random.one_in(2);
    const core::Network network = measured ? support::measured_of({{10, 1.0 * random.below(90)},
                                                                   {1000, 1.0 * random.below(90)},
                                                                   {2000, 1.0 * random.below(90)},
                                                                   {9000, 1.0 * random.below(90)}})
                                           : support::random_link(random);
    const Scene scene(profile, network, measured ? 2 : random.between(1, 9),
                      support::random_conditions(random));
    const Workload& workload = scene.setting.workload;
    for (const Pipeline& pipeline : pipelines()) {
      CAPTURE(pipeline.name);
      for (int i = 0; i < 10; ++i) {
        Schedule schedule = {.name = "s", .pipeline = &pipeline};
        schedule.options.overlap_gather = i % 2 == 0;
        Groups groups = support::random_groups(random, workload.gradient_count());
        schedule.fusion = {.kind = "random",
                           .fuse = [groups](const FusionRequest& /*request*/) { return groups; }};
        CHECK(lower_bound_us(request_of(scene.setting, schedule)) <=
              scene.run(schedule).metrics.iteration_us + 1e-6 * static_cast<double>(groups.size()));
      }
    }
  }
}

TEST_CASE("plan: layers without tensors run forward while LARS rates are gathered, and the bound knows it") {
  // compute: L (1/2 us)  F1 (10 us, no tensors)  F2 (1 us)
  // channel:            [ H 5 ][ G1 5 ]
  const Scene scene(profile_of({{10, 0}, {1, 1, {1}}}), support::link_of(5, 0), 2,
                    {.lars_us = 1, .parallel_tensor_operator = true});
  const Schedule schedule = schedule_of(R"("dear-no-fusion")");
  CHECK(scene.run(schedule).metrics.iteration_us == 1 + 5 + 0.5 + 10 + 1);
  CHECK(lower_bound_us(request_of(scene.setting, schedule)) <= 17.5);
}

TEST_CASE("plan: what is not a plan is refused") {
  const nlohmann::ordered_json good =
      nlohmann::ordered_json::parse(plan_text({.model = "m", .groups = {{.tensors = {"t"}, .bytes = 4}}}));
  struct Case {
    std::string patch;  ///< a merge patch (RFC 7386)
    std::string message;
  };
  const std::vector<Case> cases = {
      {R"({"format": "fusewise.profile"})",
       R"(p.json: /format: expected one of fusewise.plan, got "fusewise.profile")"},
      {R"({"version": 2})", "p.json: /version: expected 1, the only version this program reads, got 2"},
      {R"({"model": null})", "p.json: /model: expected a value, got nothing"},
      {R"({"workers": 0})", "p.json: /workers: expected an integer from 1 to 1000000, got 0"},
      {R"({"pipeline": "wfpb"})", "p.json: /pipeline: expected one of " +
                                      support::listed(planner::pipelines()) +
                                      R"(, got "wfpb", did you mean 'wfbp'?)"},
      {R"({"pipeline": "zero", "overlap_gather": 0})",
       "p.json: /overlap_gather: expected true or false, got 0"},
      {R"({"collectives": null})", "p.json: /collectives: expected a value, got nothing"},
      {R"({"collectives": {"all_reduce": "star"}})", "p.json: /collectives/all_reduce: expected one of " +
                                                         support::listed(planner::algorithms()) +
                                                         R"(, got "star")"},
      {R"({"compression": "zip"})", "p.json: /compression: expected one of none, " +
                                        support::listed(planner::built_in_compressors()) + R"(, got "zip")"},
      {R"({"optimality": "best"})", R"(p.json: /optimality: expected one of exact, heuristic, got "best")"},
      {R"({"optimality": "exact", "searched": false})",
       "p.json: /searched: expected true for an exact plan, got false"},
      {R"({"predicted": {"lower_bound_us": null}})",
       "p.json: /predicted/lower_bound_us: expected a value, got nothing"},
      {R"({"predicted": {"iteration_us": -1}})",
       "p.json: /predicted/iteration_us: expected a number from 0 to 10000000000000, got -1"},
      {R"({"predicted": {"compared_with": [{"schedule": ""}]}})",
       R"(p.json: /predicted/compared_with/0/schedule: expected a non-empty string, got "")"},
      {R"({"groups": []})", "p.json: /groups: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"groups": [{"tensors": ["t"]}]})", "p.json: /groups/0/bytes: expected a value, got nothing"},
      {R"({"groups": [{"tensors": [""], "bytes": 4}]})",
       R"(p.json: /groups/0/tensors/0: expected a non-empty string, got "")"},
      {R"({"groups": [{"tensors": ["t"], "bytes": 4, "modules": ["", "m"]}]})",
       "p.json: /groups/0/modules: expected 1, one for each tensor, got 2"},
      {R"({"groups": [{"tensors": ["t"], "bytes": 4, "not_before_u": 1}]})",
       "p.json: /groups/0/not_before_u: expected a key among tensors, bytes, modules, not_before_us, "
       "collectives, compression, got 'not_before_u', did you mean 'not_before_us'?"},
      {R"({"group": []})",
       "p.json: /group: expected a key among format, version, model, workers, pipeline, target, collectives, "
       "compression, data_types, recompute, selective, optimality, searched, largest_front, "
       "optimality_gap_us, predicted, groups, got 'group', did you mean 'groups'?"},
  };
  CHECK_NOTHROW(read(good.dump()));
  for (const Case& each : cases) {
    CAPTURE(each.patch);
    nlohmann::ordered_json changed = good;
    changed.merge_patch(nlohmann::ordered_json::parse(each.patch));
    CHECK_THROWS_WITH_AS(read(changed.dump()), each.message.c_str(), core::InputError);
  }
}

}  // namespace
}  // namespace planner
