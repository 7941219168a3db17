// Prices of the behaviour of frameworks: waiting for the previous bucket, gathers one ahead, one gather of
// all parameters, and hooks that compress all buckets alike.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/emit/emit.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/emit/emitters/report.hpp"
#include "tests/support/planned.hpp"
#include "tests/support/program.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;
using support::Planned;
using support::Random;
using support::Scene;

Program waiting(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("wfbp").program(groups, options);
  program.one_in_flight = true;
  return program;
}

const Pipeline kWaiting = {.name = "waiting", .summary = "", .option_keys = {}, .program = waiting};

double simulated_us(const Scene& scene, const Pipeline& pipeline, const Groups& groups) {
  const Fusion given = {.kind = "given", .fuse = [&](const FusionRequest&) { return groups; }};
  return scene.run({.pipeline = &pipeline, .fusion = given}).metrics.iteration_us;
}

TEST_CASE("behaviour: with one group in flight backward waits for the group before") {
  // Backward takes 100 us for each gradient, 1000 us for the last; a group takes 250 us and is issued with
  // the first gradient of the next:
  //   backward  1:0-100 2:100-200 3:200-300 4:450-550 5:700-1700
  //   channel   1:200-450         2:450-700 3:700-950 4:1700-1950 5:1950-2200
  // The fourth step waits for group 1, as group 2 is issued before it; the fifth waits for group 2.
  const Scene scene(support::gradients_of({{100, 4}, {100, 4}, {100, 4}, {100, 4}, {1000, 4}}),
                    support::pair_of(250, 0));
  const Groups each = support::fuse(R"("none")", scene);
  CHECK(simulated_us(scene, kWaiting, each) == 2200);
  CHECK(simulated_us(scene, pipeline("wfbp"), each) == 1650);
  const Groups all = {{.begin = 0, .end = 5}};
  CHECK(simulated_us(scene, kWaiting, all) == 1650);
  const Groups two = {{.begin = 0, .end = 2}, {.begin = 2, .end = 5}};
  CHECK(simulated_us(scene, kWaiting, two) == 1650);  // 300-550, 1400-1650
}

/// The same by hand: clocks of compute and channel, step by step.
double waited_us(const Workload& workload, const TransferCost& transfer, const Groups& groups) {
  sim::Time compute{};
  sim::Time channel{};
  sim::Time before{};  // the end of the group before the one that is issued
  std::size_t next = 0;
  for (std::uint32_t step = 0; step < workload.backward.size(); ++step) {
    compute += workload.backward[step].duration;
    sim::Time waits = compute;
    while (next + 1 < groups.size() && workload.gradients[groups[next].end].backward_step == step) {
      waits = std::max(waits, before);
      channel = std::max(channel, compute) +
                transfer.time(core::CollectiveKind::all_reduce, bytes_of(workload, groups[next]));
      before = channel;
      ++next;
    }
    if (step + 1 < workload.backward.size()) compute = waits;
  }
  channel = std::max(channel, compute) +
            transfer.time(core::CollectiveKind::all_reduce, bytes_of(workload, groups[next]));
  return sim::to_us(workload.forward_total + channel);
}

TEST_CASE("behaviour: one group in flight agrees with two clocks") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 12), support::random_link(random));
    const Workload& workload = scene.setting.workload;
    const Groups groups = support::random_groups(random, workload.gradient_count());
    const TransferCost transfer(scene.network, 2, {});
    CHECK(simulated_us(scene, kWaiting, groups) ==
          doctest::Approx(waited_us(workload, transfer, groups)).epsilon(1e-8));
  }
}

Groups groups_of(const ordered_json& sizes) {
  Groups out;
  for (const ordered_json& group : sizes) {
    const std::uint32_t begin = out.empty() ? 0 : out.back().end;
    out.push_back({.begin = begin, .end = begin + group["tensors"].get<std::uint32_t>()});
  }
  return out;
}

TEST_CASE("behaviour: DeepSpeed's price is that of waiting all-reduces and one gather of all parameters") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random));
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()),
                          R"({"pipeline": "zero"})");
    const ordered_json json = planned.emit("deepspeed").json;
    const TransferCost transfer(scene.network, 2, {});
    const double gather_us = transfer.us(core::CollectiveKind::all_gather, scene.setting.workload.bytes());
    CHECK(
        json["makes"]["iteration_us"].get<double>() ==
        doctest::Approx(simulated_us(scene, kWaiting, groups_of(json["groups"])) + gather_us).epsilon(1e-8));
    CHECK(json["iteration_us"].get<double>() ==
          doctest::Approx(planned.iteration_us(R"({"pipeline": "zero"})", planned.groups)).epsilon(1e-8));
  }
}

TEST_CASE(
    "behaviour: Megatron-LM gathers one bucket ahead, FSDP as many groups as the plan, and at least one") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random));
    const Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
    const std::string ahead = R"({"pipeline": "dear", "prefetch": 1})";
    const Planned zero(scene, groups, R"({"pipeline": "zero"})");
    const ordered_json megatron = zero.emit("megatron").json;
    CHECK(megatron["makes"]["iteration_us"].get<double>() ==
          doctest::Approx(zero.iteration_us(ahead, groups_of(megatron["groups"]))).epsilon(1e-8));
    for (const char* target : {"fsdp", "inductor"}) {
      const ordered_json json = zero.emit(target).json;
      const std::string gathers =
          fmt::format(R"({{"pipeline": "sharded", "reshard_after_forward": false, "scatters_in_flight": 1,
                           "gather_early": {}}})",
                      std::string_view(target) == "fsdp");
      CHECK(json["makes"]["iteration_us"].get<double>() ==
            doctest::Approx(zero.iteration_us(gathers, groups_of(json["groups"]))).epsilon(1e-8));
    }
    const Planned later(scene, groups, R"({"pipeline": "zero", "overlap_gather": false})");
    const ordered_json json = later.emit("megatron").json;
    CHECK(json["makes"]["iteration_us"].get<double>() ==
          doctest::Approx(later.iteration_us(R"({"pipeline": "zero", "overlap_gather": false})",
                                             groups_of(json["groups"])))
              .epsilon(1e-8));
    for (const std::uint32_t prefetch : {0U, 1U, 3U}) {
      CAPTURE(prefetch);
      const auto sharded = [](std::uint32_t n) {
        return fmt::format(
            R"({{"pipeline": "sharded", "prefetch": {}, "scatters_in_flight": 1, "gather_early": true}})", n);
      };
      const Planned planned(scene, groups,
                            fmt::format(R"({{"pipeline": "sharded", "prefetch": {}{}}})", prefetch,
                                        prefetch == 0 ? R"(, "scatters_in_flight": 0)" : ""));
      const Emission emission = planned.emit("fsdp");
      CHECK(emission.json["makes"]["iteration_us"].get<double>() ==
            doctest::Approx(
                planned.iteration_us(sharded(std::max(1U, prefetch)), groups_of(emission.json["groups"])))
                .epsilon(1e-8));
      CHECK((emission.text.find("set_modules_to_forward_prefetch") != std::string::npos) == (prefetch > 1));
    }
  }
}

TEST_CASE("behaviour: the same text of FSDP has the same price, whatever pipeline the plan had") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random));
    const Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
    const Emission zero = Planned(scene, groups, R"({"pipeline": "zero"})").emit("fsdp");
    const Emission sharded =
        Planned(scene, groups, R"({"pipeline": "sharded", "reshard_after_forward": false})").emit("fsdp");
    if (zero.json["fully_shard"] != sharded.json["fully_shard"]) continue;  // nearest at another price
    CHECK(zero.json["makes"]["iteration_us"] == sharded.json["makes"]["iteration_us"]);
  }
}

TEST_CASE("behaviour: FSDP of a model whose ends share a weight is priced as the plan's `keep_tied`") {
  int differ = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile profile = support::random_profile(random, 10);
    profile.layers.front().kind = "embedding";
    if (profile.layers.front().tensors.empty()) continue;
    profile.layers.push_back({.name = "head", .kind = "linear", .forward_us = 30, .backward_us = 60});
    const Scene scene(profile, support::random_link(random));
    const auto sharded = [](bool keeps) {
      return fmt::format(R"({{"pipeline": "sharded", "prefetch": 1, "scatters_in_flight": 1,
                              "gather_early": true, "keep_tied": {}}})",
                         keeps);
    };
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()),
                          sharded(true));
    const ordered_json json = planned.emit("fsdp").json;
    const Groups groups = groups_of(json["groups"]);
    CHECK(json["makes"]["iteration_us"].get<double>() ==
          doctest::Approx(planned.iteration_us(sharded(true), groups)).epsilon(1e-8));
    CHECK(planned.iteration_us(sharded(true), groups) <= planned.iteration_us(sharded(false), groups));
    if (planned.iteration_us(sharded(true), groups) < planned.iteration_us(sharded(false), groups)) ++differ;
  }
  CHECK(differ > 10);
}

/// Three modules of one tensor each, 4,000 bytes.
const Scene& three() {
  static const Scene scene(support::profile_of({{.forward_us = 10, .backward_us = 100, .elements = {1000}},
                                                {.forward_us = 10, .backward_us = 100, .elements = {1000}},
                                                {.forward_us = 10, .backward_us = 100, .elements = {1000}}}),
                           support::pair_of(50, 0.01));
  return scene;
}

TEST_CASE("behaviour: FSDP keeps or releases parameters as the plan says, and lists what to prefetch") {
  const Groups each = support::fuse(R"("none")", three());
  const auto text = [&](const char* json) { return Planned(three(), each, json).emit("fsdp").text; };
  const auto has = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  const std::string usual = text(R"({"pipeline": "sharded"})");  // backward needs the last group at once
  CHECK(has(usual, "    ([\"l3\"], False),\n    ([\"l2\"], True),\n    ([\"l1\"], True),\n]"));
  CHECK(has(usual, "fully_shard(model, reshard_after_forward=False)\n"));
  const std::string always = text(R"({"pipeline": "sharded", "reshard_after_forward": true, "prefetch": 2})");
  CHECK(has(always, "([\"l3\"], True),"));
  CHECK(has(always, "for name in [\"l1\", \"l2\", \"l3\"]]"));
  CHECK(has(always, "set_modules_to_forward_prefetch(units[i + 1:i + 3])"));
  CHECK(has(always, "set_modules_to_backward_prefetch(units[max(i - 2, 0):i][::-1])"));
  CHECK_FALSE(has(always, "max_input_buffers"));
  CHECK(has(text(R"({"pipeline": "sharded", "scatters_in_flight": 2})"),
            "model.set_reduce_scatter_max_input_buffers(2)"));
  for (const char* json : {R"({"pipeline": "sharded", "reshard_after_forward": false})",
                           R"({"pipeline": "zero"})", R"({"pipeline": "wfbp"})"})
    CHECK_FALSE(has(text(json), "True),"));
}

TEST_CASE("behaviour: FSDP gets a mesh of two dimensions where shard groups are smaller than the job") {
  const Scene scene(support::profile_of({{.forward_us = 10, .backward_us = 100, .elements = {1000}}}),
                    support::link_of(5, 0.01), 8);
  Planned planned(scene, {{.begin = 0, .end = 1}}, R"({"pipeline": "sharded", "shard_workers": 2})");
  planned.plan.workers = 8;
  const Emission emission = planned.emit("fsdp");
  CHECK(emission.text.find("from torch.distributed.device_mesh import init_device_mesh\n") !=
        std::string::npos);
  CHECK(emission.text.find(
            "mesh = init_device_mesh(\"cuda\", (4, 2), mesh_dim_names=(\"replicate\", \"shard\"))\n") !=
        std::string::npos);
  CHECK(emission.text.find("reshard_after_forward=False, mesh=mesh)\n") != std::string::npos);
  // priced as planned: F 10, B 100; gather 5 + 20, scatter 25 us of a pair, a sum of half over four 30 + 30
  CHECK(emission.json["makes"]["iteration_us"] == 25 + 110 + 25 + 60);
  planned.plan.workers = 2;
  CHECK(planned.emit("fsdp").text.find("mesh") == std::string::npos);
}

TEST_CASE("behaviour: under accumulation FSDP keeps parameters for zero, and gathers anew for sharded") {
  // F 10 and B 100 of each of three layers; 45 us to gather or to scatter a group.
  Conditions conditions;
  conditions.accumulation_steps = 3;
  const Scene scene(three().profile, support::pair_of(50, 0.01), 2, conditions);
  const Groups each = support::fuse(R"("none")", scene);
  const Emission zero = Planned(scene, each, R"({"pipeline": "zero"})").emit("fsdp", 3);
  // gathers at 0, 45, 90; forward ends at 145, and the other passes take 2 * 330 + 300; 45 to scatter the
  // last
  const double gathered = 3 * 45.0 + 10 + 300;
  CHECK(zero.json["makes"]["iteration_us"] == gathered + 2 * 330 + 45);
  CHECK(zero.text.find(
            "def begin_micro_batch(model, number):  # call it before the forward pass of each of the 3, "
            "from 0 on\n"
            "    is_last = number == 2\n"
            "    model.set_requires_gradient_sync(is_last)\n"
            "    model.set_reshard_after_backward(is_last)") != std::string::npos);
  const Emission sharded =
      Planned(scene, each, R"({"pipeline": "sharded", "reshard_after_forward": false})").emit("fsdp", 3);
  CHECK(sharded.json["makes"]["iteration_us"] == 3 * gathered + 45);
  CHECK(sharded.text.find("set_requires_gradient_sync(is_last)") != std::string::npos);
  CHECK(sharded.text.find("model.set_reshard_after_backward") == std::string::npos);
}

TEST_CASE("behaviour: under accumulation TorchInductor's graphs gather and reduce in each micro-batch") {
  // 45 us to gather or to scatter a group; F 10 and B 20 of each of two layers:
  //   channel  G1:0-45 G2:45-90                          S2:120-165 S1:165-210 | G1:210-255 ...
  //   compute          F1:45-55 F2:90-100 B2:100-120 B1:120-140                |            ...
  // The second micro-batch adds to gradients that S1 delivers. FSDP scatters those of the last one alone, so
  // its second micro-batch begins with a gather at 140.
  const support::LayerSpec layer = {.forward_us = 10, .backward_us = 20, .elements = {1000}};
  Conditions conditions;
  conditions.accumulation_steps = 2;
  const Scene scene(support::profile_of({layer, layer}), support::pair_of(50, 0.01), 2, conditions);
  const Planned planned(scene, support::fuse(R"("none")", scene),
                        R"({"pipeline": "sharded", "reshard_after_forward": false})");
  CHECK(planned.emit("inductor", 2).json["makes"]["iteration_us"] == 2 * 210);
  CHECK(planned.emit("fsdp", 2).json["makes"]["iteration_us"] == 140 + 210);
}

TEST_CASE("behaviour: TorchInductor's iteration takes as long as its micro-batches one after another") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 8);
    const core::Network network = support::random_link(random);
    Conditions conditions;
    conditions.accumulation_steps = 2 + seed % 3;
    const std::string json =
        fmt::format(R"({{"pipeline": "sharded"{}}})", seed % 2 == 0 ? R"(, "shard_workers": 2)" : "");
    const Scene one(profile, network, 4);
    const Scene several(profile, network, 4, conditions);
    const Groups groups = support::random_groups(random, one.setting.workload.gradient_count());
    const auto us = [&](const Scene& scene) {
      Planned planned(scene, groups, json);
      planned.plan.workers = 4;
      return planned.emit("inductor", scene.setting.conditions.accumulation_steps)
          .json["makes"]["iteration_us"]
          .get<double>();
    };
    CHECK(us(several) ==
          doctest::Approx(static_cast<double>(conditions.accumulation_steps) * us(one)).epsilon(1e-8));
  }
}

TEST_CASE("behaviour: FSDP keeps as many groups after forward as the plan says") {
  const Groups each = support::fuse(R"("none")", three());
  CHECK(Planned(three(), each, R"({"pipeline": "sharded", "kept_groups": 2})")
            .emit("fsdp")
            .json["reshards"]
            .dump() == "[false,false,true]");
}

TEST_CASE("behaviour: under accumulation Horovod counts backward passes, DeepSpeed micro-batches") {
  const Planned planned(three(), support::fuse(R"("none")", three()), R"("wfbp")");
  CHECK(planned.emit("horovod", 4).text.find("groups=groups,\n    backward_passes_per_step=4)") !=
        std::string::npos);
  CHECK(planned.emit("horovod").text.find("backward_passes_per_step") == std::string::npos);
  CHECK(planned.emit("deepspeed", 4).text.find("\"gradient_accumulation_steps\": 4,\n") != std::string::npos);
  CHECK(planned.emit("comm-hook", 4).text.find("no_sync()") != std::string::npos);
}

/// Emissions of a plan of three groups for a profile of this type that is reduced in that one.
Emission reduced_in(core::Dtype reduced, core::Dtype profile, std::string_view target) {
  core::Profile typed = three().profile;
  typed.dtype = profile;
  Conditions conditions;
  conditions.data_types.reduce = reduced;
  const Scene scene(typed, support::pair_of(50, 0.01), 2, conditions);
  return Planned(scene, {{.begin = 0, .end = 1}, {.begin = 1, .end = 3}}, R"("wfbp")").emit(target);
}

TEST_CASE("behaviour: caps count the bytes of the gradients that DDP and Horovod hold") {
  using core::Dtype;
  const auto has = [](const Emission& emission, const char* part) {
    return emission.text.find(part) != std::string::npos;
  };
  // 1,000 and 2,000 elements; a bucket closes when it holds its cap.
  const auto closes_at = [](const Emission& emission, std::int64_t bytes) {
    const auto caps = emission.json["bucket_bytes_cap_list"].get<Sizes>();
    return close_at({bytes, bytes, bytes}, caps[1], {caps[0]}).groups ==
           Groups{{.begin = 0, .end = 1}, {.begin = 1, .end = 3}};
  };
  const Emission autocast = reduced_in(Dtype::float32, Dtype::bfloat16, "ddp");
  CHECK(closes_at(autocast, 4000));
  CHECK_FALSE(closes_at(autocast, 2000));
  CHECK(has(autocast, "# Caps count gradients of float32.\n"));
  CHECK(has(autocast, "this holds where parameters are float32"));
  const Emission half = reduced_in(Dtype::bfloat16, Dtype::float32, "ddp");
  CHECK(closes_at(half, 4000));
  CHECK(has(half, "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n"));
  const Emission as_it_is = reduced_in(Dtype::bfloat16, Dtype::bfloat16, "ddp");
  CHECK(closes_at(as_it_is, 2000));
  CHECK_FALSE(has(as_it_is, "register_comm_hook"));
  const Emission hook = reduced_in(Dtype::float32, Dtype::bfloat16, "comm-hook");
  CHECK(hook.json["bucket_cap_mb_list"] == autocast.json["bucket_cap_mb_list"]);
  // compressed before they are counted, each to a multiple of 16 bytes
  CHECK(has(reduced_in(Dtype::float16, Dtype::float32, "horovod"), "compression=hvd.Compression.fp16"));
  CHECK(
      has(reduced_in(Dtype::bfloat16, Dtype::float32, "horovod"), "Horovod has no compression to bfloat16"));
}

TEST_CASE("behaviour: one number counts the bytes of the gradients that are held, too") {
  // 30 MiB and 30 MiB of bfloat16: one bucket of 60 MiB where they are held as bfloat16, at a cap above 30
  // MiB; as float32 they are two up to 60 MiB. Of the caps from there to twice as much the roundest is taken.
  core::Profile profile = support::profile_of({{.forward_us = 1, .backward_us = 1, .elements = {15 << 20}},
                                               {.forward_us = 1, .backward_us = 1, .elements = {15 << 20}}});
  profile.dtype = core::Dtype::bfloat16;
  for (const bool is_wide : {false, true}) {
    CAPTURE(is_wide);
    Conditions conditions;
    if (is_wide) conditions.data_types.reduce = core::Dtype::float32;
    const Scene scene(profile, support::pair_of(5000, 1e-9), 2, conditions);  // one group is best
    const ordered_json json = Planned(scene, {{.begin = 0, .end = 2}}, R"("wfbp")").emit("trainers").json;
    CHECK(json["best_single_cap"]["groups"] == 1);
    CHECK(json["best_single_cap"]["bucket_cap_mb"] == (is_wide ? 100 : 40));
  }
  const Scene small(support::gradients_of({{100, 6 << 20}, {100, 6 << 20}}), support::pair_of(5000, 1e-9));
  const ordered_json json = Planned(small, {{.begin = 0, .end = 2}}, R"("wfbp")").emit("trainers").json;
  CHECK(json["best_single_cap"]["bucket_cap_mb"] == 25);  // the default, which makes the same groups
}

TEST_CASE("behaviour: Megatron-LM and DeepSpeed are told in which type gradients are reduced") {
  using core::Dtype;
  const auto text = [](Dtype reduced, Dtype profile, std::string_view target) {
    return reduced_in(reduced, profile, target).text;
  };
  const auto has = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  CHECK(has(text(Dtype::float32, Dtype::float16, "megatron"), " --accumulate-allreduce-grads-in-fp32 "));
  CHECK_FALSE(has(text(Dtype::float16, Dtype::float16, "megatron"), "-grads-in-fp32"));
  CHECK_FALSE(has(text(Dtype::float32, Dtype::bfloat16, "megatron"), "--grad-reduce-in-bf16 "));
  CHECK(has(text(Dtype::float16, Dtype::bfloat16, "megatron"), "only of a job of float16"));
  CHECK(has(text(Dtype::float32, Dtype::bfloat16, "deepspeed"), "\"communication_data_type\": \"fp32\""));
  CHECK(has(text(Dtype::float16, Dtype::float16, "deepspeed"), "\"communication_data_type\": \"fp16\""));
}

TEST_CASE(
    "behaviour: under accumulation DeepSpeed gets the stage that communicates in the last micro-batch") {
  const Planned planned(three(), support::fuse(R"("none")", three()), R"("wfbp")");
  CHECK(planned.emit("deepspeed", 1).text.find("\"stage\": 2") != std::string::npos);
  CHECK(planned.emit("deepspeed", 4).text.find("\"stage\": 1") != std::string::npos);
  CHECK(planned.emit("deepspeed", 4).text.find("in each of the 4 micro-batches") != std::string::npos);
}

TEST_CASE("behaviour: DeepSpeed gets the stage of the plan, and what it cannot do is refused") {
  const auto emission = [](const char* schedule, std::int64_t accumulation_steps) {
    return Planned(three(), support::fuse(R"("none")", three()), schedule)
        .emit("deepspeed", accumulation_steps)
        .text;
  };
  const char* const second = R"({"pipeline": "zero", "stage": 2})";
  CHECK(emission(R"({"pipeline": "zero"})", 1).find("\"stage\": 1,") != std::string::npos);
  CHECK(emission(R"({"pipeline": "zero"})", 4).find("\"stage\": 1,") != std::string::npos);
  CHECK(emission(second, 1).find("\"stage\": 2,") != std::string::npos);
  CHECK(emission(second, 4).find("\"stage\": 2,") != std::string::npos);
  CHECK(emission(R"({"pipeline": "sharded"})", 1).find("\"stage\": 3,") != std::string::npos);
}

TEST_CASE("behaviour: DeepSpeed's stage 3 has leaf modules for groups, and numbers of their elements") {
  const Scene scene(support::named({{"h.0.a.w", 100},
                                    {"h.0.b.w", 200},
                                    {"h.1.a.w", 100},
                                    {"h.1.b.w", 200},
                                    {"h.2.a.w", 100},
                                    {"h.2.b.w", 200}}),
                    support::pair_of(20, 0.1));
  const auto emitted = [&](const std::vector<std::uint32_t>& counts, const std::string& keys) {
    return Planned(scene, support::of_counts(counts), R"({"pipeline": "sharded")" + keys + "}")
        .emit("deepspeed")
        .json;
  };
  const auto numbers = [](const ordered_json& json) {
    std::vector<std::int64_t> out;
    for (const char* key : {"reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_max_live_parameters",
                            "stage3_max_reuse_distance"})
      out.push_back(json[key].get<std::int64_t>());
    return out;
  };
  using Numbers = std::vector<std::int64_t>;
  const ordered_json blocks = emitted({2, 2, 2}, "");
  CHECK(blocks["groups_reproduced"] == true);
  CHECK(blocks["leaf_modules"].dump() == R"(["h.0","h.1","h.2"])");
  CHECK(numbers(blocks) == Numbers{300, 300, 600, 300});
  const Planned planned(scene, support::of_counts({2, 2, 2}), R"({"pipeline": "sharded"})");
  CHECK(blocks["makes"]["iteration_us"] ==
        planned.iteration_us(R"({"pipeline": "sharded", "scatters_in_flight": 3})", planned.groups));
  CHECK(numbers(emitted({2, 2, 2}, R"(, "reshard_after_forward": true)")) == Numbers{300, 300, 600, 300});
  CHECK(numbers(emitted({2, 2, 2}, R"(, "reshard_after_forward": true, "prefetch": 0)")) ==
        Numbers{300, 0, 300, 0});
  CHECK(numbers(emitted({2, 2, 2}, R"(, "reshard_after_forward": false)")) == Numbers{300, 300, 1200, 900});

  // Modules without one around them alone are gathered one by one.
  const ordered_json others = emitted({3, 3}, "");
  CHECK(others["leaf_modules"].dump() == R"(["h.0","h.2"])");
  CHECK(others["makes"]["groups"] == 4);
  CHECK(others["groups_reproduced"] == false);
}

TEST_CASE(
    "behaviour: what a profile of bfloat16 was priced with is written, where the framework has another "
    "default") {
  core::Profile profile = three().profile;
  profile.dtype = core::Dtype::bfloat16;
  const Scene scene(profile, support::pair_of(50, 0.01));
  const Planned planned(scene, support::fuse(R"("none")", scene), R"({"pipeline": "zero"})");
  const auto has = [&](const char* target, const char* part) {
    return planned.emit(target).text.find(part) != std::string::npos;
  };
  CHECK(has("megatron", " --grad-reduce-in-bf16 "));
  CHECK(has("fsdp", "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)"));
  CHECK(has("deepspeed", "\"communication_data_type\": \"bf16\""));
  const Planned full(three(), support::fuse(R"("none")", three()), R"({"pipeline": "zero"})");
  CHECK(full.emit("megatron").text.find("--grad-reduce-in-bf16 ") == std::string::npos);
}

TEST_CASE("behaviour: the job's own types of collectives are priced and written") {
  core::Profile profile = three().profile;
  profile.dtype = core::Dtype::bfloat16;
  Conditions conditions;
  conditions.data_types.reduce = core::Dtype::float32;
  const core::Network network = support::pair_of(50, 0.01);
  const Scene scene(profile, network, 2, conditions);
  const Groups each = support::fuse(R"("none")", scene);
  const Planned planned(scene, each, R"("wfbp")");
  // 2,000 bytes of gradients are reduced as 4,000: 90 us each, ready at 100, 200 and 300 us.
  CHECK(planned.emit("ddp").json["makes"]["iteration_us"] == 30 + 390);
  // Reduce-scatters of 4,000 bytes, 45 us each, end at 345; then 35 us for each gather of 2,000, of which
  // forward hides all but the first: 345 + 3 * 35 + 10, as a gather is issued when forward has waited for the
  // one before.
  CHECK(planned.emit("fsdp").json["makes"]["iteration_us"] == 345 + 3 * 35 + 10);
  const std::string fsdp = planned.emit("fsdp").text;
  CHECK(fsdp.find("MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)\n") !=
        std::string::npos);
  CHECK(
      planned.emit("inductor")
          .json["notes"]
          .dump()
          .find(
              "The sharding has to gather in bfloat16 and reduce in float32, as with a MixedPrecisionPolicy("
              "param_dtype=torch.bfloat16, reduce_dtype=torch.float32).") != std::string::npos);
  CHECK(
      Planned(scene, each, R"({"pipeline": "zero"})").emit("megatron").text.find("--grad-reduce-in-bf16 ") ==
      std::string::npos);
}

TEST_CASE("behaviour: a hook compresses all buckets, where that is faster, and others say that they do not") {
  const Groups each = support::fuse(R"("none")", three());
  const char* const compressed =
      R"({"pipeline": "wfbp", "compression": {"name": "bf16", "ratio": 0.5, "collective": "all_reduce"}})";
  const Planned planned(three(), each, compressed);
  // Ready at 100, 200, 300. Uncompressed 90 us each: 100-190, 200-290, 300-390. In half the bytes 70 us.
  const Emission hook = planned.emit("comm-hook");
  CHECK(hook.json["hook"] == "bf16_compress_hook");
  CHECK(hook.json["makes"]["iteration_us"] == 30 + 370);
  CHECK(hook.text.find("model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n") !=
        std::string::npos);
  const Emission ddp = planned.emit("ddp");
  CHECK(ddp.json["makes"]["iteration_us"] == 30 + 390);
  CHECK(ddp.json["notes"][0] == "The plan's compressors are not applied.");

  // Factors of 20 x 50 elements have 80 and 200 bytes: 5.8 and 7 us, against 45.
  core::Profile shaped = three().profile;
  for (core::ProfileLayer& layer : shaped.layers) layer.tensors.front().shape = {20, 50};
  const Scene matrices(std::move(shaped), support::pair_of(5, 0.01));
  const Emission power_sgd = Planned(matrices, each, R"({"pipeline": "wfbp", "compression":
      {"name": "power-sgd", "min_compression_rate": 1.5, "encode": {}, "in_transit": {}, "decode": {}}})")
                                 .emit("comm-hook");
  CHECK(power_sgd.json["hook"] == "powerSGD_hook");
  CHECK(power_sgd.json["hook_options"].dump() ==
        R"({"matrix_approximation_rank":1,"min_compression_rate":1.5})");
  CHECK(power_sgd.json["makes"]["iteration_us"] == 30 + 300 + 5 + 0.8 + 5 + 2);
  CHECK(power_sgd.text.find("from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook\n") !=
        std::string::npos);
  CHECK(power_sgd.text.find("state = powerSGD_hook.PowerSGDState(None, "
                            "matrix_approximation_rank=1, min_compression_rate=1.5)\n"
                            "model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)\n") !=
        std::string::npos);

  // All groups get whichever is fastest: one of the two compressors, or none.
  Planned mixed(three(), each,
                R"({"pipeline": "wfbp", "fusion": {"kind": "optimal", "choices": {"compression": [
      {"name": "bf16", "ratio": 0.5, "collective": "all_reduce"},
      {"name": "fp16", "ratio": 0.75, "collective": "all_reduce"}]}}})");
  const std::vector<TransferCost> transfers = make_transfers(three().setting, mixed.schedule);
  REQUIRE(transfers.size() == 3);
  mixed.plan.groups.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    mixed.groups[i].transfer = (i + 1) % 3;
    mixed.plan.groups[i].transfer.compressor = transfers[(i + 1) % 3].transfer().compressor;
  }
  const Emission one = mixed.emit("comm-hook");
  CHECK(one.json["hook"] == "bf16_compress_hook");
  CHECK(one.json["differs"].dump() == R"([{"group":2,"why":"compressed by bf16, not compressed by fp16"},)"
                                      R"({"group":3,"why":"compressed by bf16, not uncompressed"}])");
  CHECK(mixed.emit("ddp").json["differs"][0]["why"] ==
        "sent without the algorithm or compressor that the plan has for it alone");
  // Older releases take one number, under the same hook.
  double best = planned.iteration_us(each);
  for (const auto& counts : {std::vector<std::uint32_t>{2, 1}, std::vector<std::uint32_t>{3}})
    best = std::min(best, planned.iteration_us(support::of_counts(counts)));
  CHECK(one.json["best_single_cap"]["iteration_us"].get<double>() == doctest::Approx(best));
  CHECK(one.text.find("# Before 2.11 one number holds for all buckets") != std::string::npos);

  const Emission plain = Planned(three(), each, R"({"pipeline": "wfbp"})").emit("comm-hook");
  CHECK(plain.json["hook"].is_null());
  CHECK(plain.text.find("register_comm_hook(") == std::string::npos);
}

TEST_CASE(
    "behaviour: a plan for parameter servers is priced with all-reduces, where the framework has no "
    "servers") {
  const core::Network network = support::pair_of(50, 0.01);
  const Scene servers(three().profile, network, 2, {}, {.name = "parameter_server"});
  const Groups each = support::fuse(R"("none")", servers);
  const Planned planned(servers, each, R"({"pipeline": "parameter_server"})");
  const ordered_json json = planned.emit("ddp").json;
  CHECK(json["iteration_us"] == planned.iteration_us(R"({"pipeline": "parameter_server"})", each));
  CHECK(json["makes"]["iteration_us"] == simulated_us(three(), pipeline("wfbp"), each));
  CHECK(json["makes"]["iteration_us"] != json["iteration_us"]);
}

TEST_CASE("behaviour: the libraries around DDP take whole MiB") {
  const Scene scene(support::gradients_of({{100, 1 << 19}, {100, 1 << 20}, {100, 3 << 20}}),
                    support::pair_of(50, 0.001));
  const Planned planned(scene, {{.begin = 0, .end = 3}}, R"("wfbp")");
  const ordered_json json = planned.emit("trainers").json;
  double best = 1e300;
  std::int64_t groups = 0;
  for (std::int64_t mib = 1; mib <= 6; ++mib) {
    const Groups made = close_at({1 << 19, 1 << 20, 3 << 20}, mib << 20).groups;
    const double us = simulated_us(scene, pipeline("wfbp"), made);
    if (us < best) groups = static_cast<std::int64_t>(made.size());
    best = std::min(best, us);
  }
  CHECK(json["makes"]["iteration_us"] == best);
  CHECK(json["makes"]["groups"] == groups);
}

TEST_CASE(
    "behaviour: Megatron-LM's number of buckets is the parameters divided by it, and its defaults are "
    "priced") {
  const Scene scene(support::gradients_of({{100, 400}, {100, 400}, {100, 400}, {100, 400}}),
                    support::pair_of(10, 1));
  const Planned planned(scene, {{.begin = 0, .end = 4}}, R"("wfbp")");
  const ordered_json json = planned.emit("megatron").json;
  // 400 elements in all; a group of n costs 10 + 400 n: two groups end at 200 + 810 + 810, four at 100 + 4 *
  // 410.
  CHECK(json["best_num_buckets"]["ddp_num_buckets"] == 4);
  CHECK(json["best_num_buckets"]["iteration_us"] == 1740);
  CHECK(json["at_defaults"]["megatron_lm"]["elements"] == 40'000'000);
  CHECK(json["at_defaults"]["megatron_lm"]["groups"] == 1);
  CHECK(json["at_defaults"]["megatron_bridge"]["elements"] == 134'217'728);
}

TEST_CASE("behaviour: DDP's rule makes of ResNet-50 the five buckets that PyTorch recorded") {
  // tests/data/ranks/resnet-2gpu-et.json.gz, an execution trace of PyTorch on two GPUs.
  const core::Profile profile =
      core::read_profile(core::Field::load(support::source_dir() / "traces" / "resnet50-v100.profile.json"));
  const Workload workload = make_workload(profile);
  std::vector<std::int64_t> elements;
  for (const Group& group : close_at(gradient_bytes(workload), 25 << 20, {1 << 20}).groups)
    elements.push_back(bytes_of(workload, group) / 4);
  CHECK(elements == std::vector<std::int64_t>{2'049'000, 7'875'584, 6'563'840, 6'637'568, 2'431'040});
}

}  // namespace
}  // namespace planner
