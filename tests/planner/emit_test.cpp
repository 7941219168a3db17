// Emitters: what all of them have in common, and what single ones say or do not do. The texts, the rules of
// numbers and of modules have tests of their own; tests/torch/ddp_buckets.py compares the assumed rule of DDP
// with PyTorch.

#include "planner/emit/emit.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "planner/emit/emitters/caps.hpp"
#include "planner/job/registry.hpp"
#include "tests/support/planned.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;
using support::five_tensors;
using support::named;
using support::of_counts;
using support::of_pipeline;
using support::Planned;
using support::Random;
using support::Scene;

TEST_CASE("emit: the table names what there is") {
  CHECK(names(emitters()) == std::vector<std::string_view>{"ddp", "comm-hook", "trainers", "fsdp", "inductor",
                                                           "horovod", "deepspeed", "megatron", "json",
                                                           "nccl-tuner"});
  for (const Emitter& emitter : emitters()) CHECK_FALSE(emitter.summary.empty());
}

TEST_CASE("emit: Horovod keeps the plan's cycle, and says what another tick would change") {
  // Ticks every 150 us. The groups are ready at 300, 400 and 500, so they are issued at 300, 450 and 600.
  Groups groups = of_counts({3, 1, 1});
  const std::vector<int> ticks_us = {300, 450, 600};
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].tick = sim::from_us(ticks_us[i]);
  const Emission emission = Planned(five_tensors(), groups).emit("horovod");
  CHECK(emission.json["groups_reproduced"] == true);
  CHECK(emission.json["cycle_ms"] == 0.15);
  CHECK(emission.text.find("#   HOROVOD_CYCLE_TIME=0.15  # ms, as in the plan\n") != std::string::npos);

  groups[2].tick = sim::from_us(750);
  const ordered_json later = Planned(five_tensors(), groups).emit("horovod").json;
  CHECK(later["groups_reproduced"] == false);
  CHECK(later["differs"].dump() ==
        R"([{"group":3,"why":"issued no sooner than 600 us after backward began, not 750 us"}])");
}

TEST_CASE("emit: Horovod counts every tensor in multiples of 16 bytes") {
  const Scene scene(named({{"a.b", 1}, {"a.w", (1 << 18) - 1}}),
                    support::pair_of(20, 0.001));  // one MiB in total
  CHECK(Planned(scene, of_counts({2})).emit("horovod").json["HOROVOD_FUSION_THRESHOLD"] == 2 << 20);
}

TEST_CASE("emit: a plan that shards is told to lose its memory where the framework does not shard") {
  const auto says = [](const char* pipeline, const char* target) {
    const Planned planned(five_tensors(), of_counts({2, 2, 1}), of_pipeline(pipeline));
    return planned.emit(target).json["notes"].dump().find("the memory that sharding saves is given up") !=
           std::string::npos;
  };
  CHECK(says("zero", "ddp"));
  CHECK(says("zero", "horovod"));
  CHECK_FALSE(says("zero", "fsdp"));
  CHECK_FALSE(says("zero", "deepspeed"));
  CHECK_FALSE(says("zero", "json"));
  CHECK_FALSE(says("wfbp", "ddp"));
}

TEST_CASE("emit: Megatron-LM pads in zero alone, and the number for one group is not far above its size") {
  // With each tensor at a multiple of 64, 1 + 1 reaches 65 and 10 + 10 reaches 74; without alignment no
  // number yields {2}, {2}.
  const Scene scene(named({{"a", 10}, {"b", 10}, {"c", 1}, {"d", 1}}), support::pair_of(20, 0.001));
  const auto best = [&](const char* target, const char* pipeline, const Groups& wanted) {
    const Planned planned(scene, wanted, of_pipeline(pipeline));
    return emit(target,
                {planned.plan, wanted, scene.setting.workload,
                 [&](const Behaviour&, const Groups& groups) { return groups == wanted ? 1.0 : 2.0; }})
        .json;
  };
  CHECK(best("megatron", "zero", of_counts({2, 2}))["groups_reproduced"] == true);
  CHECK(best("megatron", "zero", of_counts({2, 2}))["best_single_cap"]["ddp_bucket_size"] == 20);  // 11 to 65
  CHECK(best("megatron", "wfbp", of_counts({2, 2}))["groups_reproduced"] == false);
  CHECK(best("megatron", "wfbp", of_counts({4}))["best_single_cap"]["ddp_bucket_size"] == 20);  // 13 to 26
  CHECK(best("deepspeed", "zero", of_counts({4}))["best_single_cap"]["reduce_bucket_size"] ==
        30);  // 22 to 44
}

TEST_CASE("emit: ticks and another order are named as what DDP does not do") {
  Groups ticked = of_counts({2, 3});
  ticked[1].tick = sim::from_us(1000);
  const ordered_json json = Planned(five_tensors(), ticked).emit("ddp").json;
  CHECK(json["groups_reproduced"] == false);
  CHECK(json["bucket_cap_mb_list"].dump() == "[3,3]");
  CHECK(json["differs"].dump() ==
        R"([{"group":2,"why":"issued no sooner than 0 us after backward began, not 1000 us"}])");
  CHECK(json["makes"]["loss_us"] == -349.6);  // 1000 + 410 becomes 650.4 + 410

  Groups swapped = of_counts({2, 3});
  std::swap(swapped[0], swapped[1]);
  const Planned planned(five_tensors(), swapped);
  const ordered_json data = emit("ddp", {planned.plan, swapped, five_tensors().setting.workload,
                                         [](const Behaviour&, const Groups&) { return 1.0; }})
                                .json;
  CHECK(Planned(five_tensors(), ticked).emit("json").json["groups"][1]["not_before_us"] == 1000.0);
  CHECK(data["groups_reproduced"] == false);
  CHECK(data["bucket_cap_mb_list"].dump() == "[3,3]");
  CHECK(data["differs"][0].dump() == R"({"group":1,"why":"launched as number 2, in the order of backward"})");
}

TEST_CASE("emit: names that would end a string or a comment do not") {
  const Scene scene(named({{"a\"]\nimport os.w", 100}, {"b\\.w", 100}}), support::pair_of(20, 0.001));
  Planned planned(scene, of_counts({1, 1}));
  planned.plan.model = "m\nimport os";
  for (const Emitter& emitter : emitters()) {
    CAPTURE(emitter.name);
    CHECK(planned.emit(emitter.name).text.find("\nimport os") == std::string::npos);
  }
  CHECK(planned.emit("horovod").text.find(R"(["a\"]\nimport os.w"])") != std::string::npos);
}

/// Only Horovod delays groups, each by less than a tick.
void check_loss(std::string_view emitter, double loss_us) {
  constexpr double kTickUs = 1000;
  CHECK(loss_us >= 0);
  CHECK(loss_us < (emitter == "horovod" ? kTickUs : 1e-6));
}

TEST_CASE("emit: every emitter says the same of itself for any plan, and costs what the simulator says") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random));
    const char* const pipeline = random.one_in(2) ? "wfbp" : random.one_in(2) ? "zero" : "after_backward";
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()),
                          of_pipeline(pipeline));
    for (const Emitter& emitter : emitters()) {
      CAPTURE(emitter.name);
      const Emission emission = planned.emit(emitter.name);
      CHECK(emission.text.ends_with('\n'));
      CHECK(emission.json["target"] == emitter.name);
      if (emitter.name == "json" || emitter.name == "nccl-tuner") continue;
      CHECK(emission.json["iteration_us"] == planned.iteration_us(planned.groups));
      CHECK(emission.json["differs"].empty() == emission.json["groups_reproduced"].get<bool>());
      const bool all_reduces =
          emitter.name != "deepspeed" && emitter.name != "fsdp" && emitter.name != "inductor";
      if (all_reduces && std::string_view(pipeline) == "wfbp" && emission.json["groups_reproduced"])
        check_loss(emitter.name, emission.json["makes"]["loss_us"]);
      const bool does_all = emitter.name == "ddp" || emitter.name == "horovod" || emitter.name == "comm-hook";
      if (does_all) CHECK(emission.json["groups_reproduced"] == true);
      if (does_all || !emission.json.contains("best_single_cap")) continue;
      CHECK(emission.json["makes"]["iteration_us"] == emission.json["best_single_cap"]["iteration_us"]);
    }
  }
}

TEST_CASE("emit: NCCL tuner rules count bytes of the type in which gradients are reduced") {
  Conditions conditions;
  conditions.data_types.reduce = core::Dtype::bfloat16;
  const Scene scene(five_tensors().profile, support::pair_of(50, 0.0001), 2, conditions);
  Planned planned(scene, of_counts({4, 1}));
  planned.plan.groups.resize(2);
  planned.plan.groups[0].bytes = 3'000'000;
  planned.plan.groups[1].bytes = 1'000'000;
  planned.plan.groups[1].transfer.all_reduce = Algorithm{.name = "double_binary_tree"};
  CHECK(planned.emit("nccl-tuner").json["rules"][0]["max_bytes"] == 1'000'000);  // 500,000 and 1,500,000
}

TEST_CASE("emit: NCCL tuner rules, to the letter, where runs of sizes meet halfway") {
  // Groups of 3,000,000 and 2,000,000 bytes by a ring, one of 1,000,000 by a tree.
  Planned planned(five_tensors(), of_counts({2, 2, 1}));
  planned.plan.groups.resize(3);
  planned.plan.groups[0].bytes = 3'000'000;
  planned.plan.groups[1].bytes = 2'000'000;
  planned.plan.groups[2].bytes = 1'000'000;
  planned.plan.groups[2].transfer.all_reduce = Algorithm{.name = "double_binary_tree"};
  const Emission emission = planned.emit("nccl-tuner");
  const auto has = [](const Emission& of, const char* part) {
    return of.text.find(part) != std::string::npos;
  };
  CHECK(has(emission,
            "\nallreduce,0,1500000,tree,simple,0,-1,2,-1,-1\n"
            "allreduce,1500001,1125899906842624,ring,simple,0,-1,2,-1,-1\n# Priced: as planned; "));
  CHECK(has(emission, "# Read, not run: in the plugin's plugin.c, at "));
  CHECK(emission.json["does_not"].size() == 4);
  std::size_t line = 0;  // the plugin cuts comments of 256 characters, and takes their rest for rules
  for (std::size_t end = emission.text.find('\n'); end != std::string::npos;
       end = emission.text.find('\n', line)) {
    CHECK(end - line < 200);
    line = end + 1;
  }
  CHECK(emission.json["rules"].size() == 2);
  planned.plan.groups[1].bytes = 1'000'000;
  planned.plan.groups[0].transfer.all_reduce = Algorithm{.name = "halving_doubling"};
  CHECK(has(planned.emit("nccl-tuner"),
            "allreduce,0,1125899906842624,ring,simple,0,-1,2,-1,-1\n"
            "# Group 1: NCCL has no halving_doubling; it chooses by itself.\n"
            "# Group 3: another group of 1000000 bytes goes by ring, and so does this one.\n"));
}

/// What the pieces of the estimates say of so many bytes.
double estimated_us(const ordered_json& costs, std::string_view collective, std::int64_t workers,
                    double bytes) {
  for (const ordered_json& cost : costs) {
    if (cost["collective"] != collective || cost["workers"] != workers) continue;
    ordered_json found = cost["pieces"].front();
    for (const ordered_json& piece : cost["pieces"])
      if (piece[0].get<double>() <= bytes) found = piece;
    return std::max(
        0.0, found[1].get<double>() + std::max(0.0, bytes - found[0].get<double>()) * found[2].get<double>());
  }
  return -1;
}

TEST_CASE("emit: TorchInductor gets the network's own curves, for all workers and those that a level joins") {
  const auto costs_of = [](const core::Network& network, std::int64_t workers, std::int64_t of_shard = 0) {
    Planned planned(five_tensors(), of_counts({2, 3}), of_pipeline("zero"));
    planned.plan.workers = workers;
    if (of_shard > 0) planned.plan.options.shard_workers = of_shard;
    const Schedule schedule = {.pipeline = &planner::pipeline("zero")};
    scenarios::Prices prices(five_tensors().setting, schedule, {});
    return planner::emit("inductor", {planned.plan, planned.groups, five_tensors().setting.workload,
                                      [&](const Behaviour& behaviour, const Groups& other) {
                                        return prices.iteration_us(behaviour, other);
                                      },
                                      1, DataTypes{}, &network})
        .json["custom_runtime_estimation"];
  };
  const core::Network curve = support::measured_of({{1000, 50}, {3000, 90}, {5000, 80}});
  const ordered_json measured = costs_of(curve, 2);
  core::Network segmented = curve;
  for (core::Measured& each : segmented.measured)
    each.curve = core::CostCurve::of_segments({{0, 100, 5, 0.5}, {100, 1e6, 20, 0.75}});
  const ordered_json in_segments = costs_of(segmented, 2);
  core::Network levels = support::link_of(1, 1);
  levels.levels = {{.name = "inside", .size = 4, .link = {.alpha_us = 2, .beta_us_per_byte = 0.01}},
                   {.name = "between", .size = {}, .link = {.alpha_us = 30, .beta_us_per_byte = 0.5}}};
  const ordered_json joined = costs_of(levels, 16);
  CHECK(joined.size() == 6);
  for (const double bytes : {0.0, 1.0, 99.0, 100.0, 1000.0, 1500.0, 3000.0, 4000.0, 9000.0, 1e9}) {
    CAPTURE(bytes);
    for (const auto kind : {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
                            core::CollectiveKind::all_gather}) {
      const auto check = [&](const ordered_json& costs, const core::Network& network, std::int64_t workers) {
        CHECK(estimated_us(costs, core::name(kind), workers, bytes) ==
              doctest::Approx(Costs(network, workers, {}).of(kind).curve.us(bytes)).epsilon(1e-12));
      };
      check(measured, curve, 2);
      check(in_segments, segmented, 2);
      check(joined, levels, 16);
      check(joined, levels, 4);
    }
  }
  CHECK(estimated_us(joined, "all_reduce", 8, 100) == -1);
  // 4 workers in a node and 4 nodes: the pass cannot tell the two dimensions apart
  const ordered_json square = costs_of(levels, 16, 4);
  CHECK(estimated_us(square, "all_reduce", 4, 100) == -1);
  CHECK(estimated_us(square, "all_reduce", 16, 100) > 0);
  const ordered_json oblong = costs_of(levels, 32, 4);
  CHECK(estimated_us(oblong, "all_reduce", 4, 100) ==
        Costs(levels, 4, {}).of(core::CollectiveKind::all_reduce).curve.us(100));
  CHECK(estimated_us(oblong, "all_reduce", 8, 100) > 0);
}

TEST_CASE("emit: after backward Megatron-LM has one bucket and no number") {
  const Emission emission =
      Planned(five_tensors(), of_counts({2, 3}), of_pipeline("after_backward")).emit("megatron");
  CHECK(emission.json["makes"]["groups"] == 1);
  CHECK_FALSE(emission.json.contains("best_single_cap"));
  CHECK(emission.text.find("--ddp-bucket-size") == std::string::npos);
}

}  // namespace
}  // namespace planner
