// Emitters: the exact texts for five tensors, and checks that the emitted text yields the reported groups.
// tests/torch/ddp_buckets.py compares the assumed rule of DDP with PyTorch.

#include "planner/emit/emit.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/json_text.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/job/registry.hpp"
#include "planner/scenarios/prices.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;
using support::named;
using support::Random;
using support::Scene;

/// A plan with these groups for a scene, and its emissions.
struct Planned {
  const Scene& scene;
  PlanFile plan;
  Groups groups;

  Planned(const Scene& its_scene, Groups its_groups, const std::string& pipeline = "wfbp")
      : scene(its_scene), groups(std::move(its_groups)) {
    plan.model = "small";
    plan.workers = 2;
    plan.pipeline = pipeline;
  }

  double iteration_us(const Groups& other) const {
    const Fusion given = {.kind = "given", .fuse = [&](const FusionRequest&) { return other; }};
    return scene.run({.pipeline = &planner::pipeline(plan.pipeline), .fusion = given}).metrics.iteration_us;
  }

  Emission emit(std::string_view target, std::int64_t accumulation_steps = 1) const {
    const Schedule schedule = {.pipeline = &planner::pipeline(plan.pipeline), .options = plan.options};
    scenarios::Prices prices(scene.setting, schedule, {});
    return planner::emit(target, {plan, groups, scene.setting.workload,
                                  [&](const Behaviour& behaviour, const Groups& other) {
                                    return prices.iteration_us(behaviour, other);
                                  },
                                  accumulation_steps});
  }
};

/// Backward yields classifier.bias, classifier.weight, features.3.weight, features.0.bias, features.0.weight:
/// 4,000, 4,000,000, 2,400,000, 256 and 1,200,000 bytes. An all-reduce takes 50 us and 100 us for a million.
const Scene& five() {
  static const Scene scene(named({{"features.0.weight", 300'000},
                                  {"features.0.bias", 64},
                                  {"features.3.weight", 600'000},
                                  {"classifier.weight", 1'000'000},
                                  {"classifier.bias", 1'000}}),
                           support::pair_of(50, 0.0001));
  return scene;
}

Groups of_counts(const std::vector<std::uint32_t>& counts) {
  Groups groups;
  for (const std::uint32_t count : counts) {
    const std::uint32_t begin = groups.empty() ? 0 : groups.back().end;
    groups.push_back({.begin = begin, .end = begin + count});
  }
  return groups;
}

std::string json_of(const Planned& planned, std::string_view target) {
  return core::json_text(planned.emit(target).json);
}

TEST_CASE("emit: the table names what there is") {
  CHECK(names(emitters()) == std::vector<std::string_view>{"ddp", "comm-hook", "trainers", "fsdp", "inductor",
                                                           "horovod", "deepspeed", "megatron", "json",
                                                           "nccl-tuner"});
  for (const Emitter& emitter : emitters()) CHECK_FALSE(emitter.summary.empty());
}

TEST_CASE("emit: DDP, to the letter") {
  // Ready at 100, 200, ... 500 us. {2} 200-650.4, {2} 650.4-940.4, {1} 940.4-1110.4, and 50 of forward.
  const Planned planned(five(), of_counts({2, 2, 1}));
  CHECK(planned.emit("ddp").text ==
        R"raw(# DDP for model "small": 3 groups for 2 workers (pipeline wfbp, 1160.4 us per iteration)
# makes exactly the groups of the plan
model = torch.nn.parallel.DistributedDataParallel(
    model,
    bucket_cap_mb_list=[3, 2.289, 1],  # PyTorch 2.11 or later
)
#
# Before 2.11 one number holds for all buckets, if it is also set for the first:
#   torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 3145728
#   DistributedDataParallel(model, bucket_cap_mb=3)
# makes 2 groups, 1110.4 us per iteration: gains 50.0 us (4.31 %)
# (the best of the 8 groupings that one number can make)
# Where the first bucket keeps its 1 MiB (so in 1.13), bucket_cap_mb=8 does best:
# 2 groups, 1110.4 us per iteration: gains 50.0 us (4.31 %)
# With DDP_SET_LAST_BUCKET_CAP=1 in the environment that bucket is the last one, and bucket_cap_mb=2 does best:
# 4 groups, 1160.0 us per iteration: gains 0.4 us (0.03 %)
#
# Holds from the second iteration on, when DDP has put gradients in the order in which they become
# ready; find_unused_parameters=True without static_graph=True keeps it from doing so.
# Gradients of several dtypes or devices get buckets, and use up caps, of their own.
# Priced: one all-reduce for each bucket, under backward, in the last micro-batch, if the others run
# under no_sync().
# Verified: PyTorch 1.13 and 2.13 made the buckets, read back through a communication hook; 2.10
# lacks bucket_cap_mb_list, 2.11 has it.
# Does not compress: a communication hook does (--emit comm-hook).
# Does not make these buckets under torch.compile, where DDPOptimizer cuts the graph at the largest
# cap, unless torch._dynamo.config.optimize_ddp = False; the Python reducer refuses lists.
)raw");
  CHECK(json_of(planned, "ddp") == R"raw({
  "target": "ddp",
  "groups_reproduced": true,
  "iteration_us": 1160.4256,
  "makes": {"groups": 3, "iteration_us": 1160.4256, "loss_us": 0.0, "loss_percent": 0.0},
  "bucket_cap_mb_list": [3, 2.289, 1],
  "bucket_bytes_cap_list": [3145728, 2400190, 1048576],
  "least_pytorch": "2.11",
  "best_single_cap": {
    "bucket_cap_mb": 3,
    "groups": 2,
    "iteration_us": 1110.4256,
    "loss_us": -50.0,
    "loss_percent": -4.3087639569482095,
    "tried": 8,
    "exhaustive": true,
    "first_bucket_bytes": 3145728
  },
  "best_single_cap_after_1_mib": {
    "bucket_cap_mb": 8,
    "groups": 2,
    "iteration_us": 1110.4256,
    "loss_us": -50.0,
    "loss_percent": -4.3087639569482095,
    "tried": 4,
    "exhaustive": true,
    "first_bucket_bytes": 1048576
  },
  "best_single_cap_before_1_mib": {
    "bucket_cap_mb": 2,
    "groups": 4,
    "iteration_us": 1160.0256,
    "loss_us": -0.4,
    "loss_percent": -0.034470111655585674,
    "tried": 4,
    "exhaustive": true,
    "first_bucket_bytes": 1048576
  },
  "differs": [],
  "notes": [
    "Holds from the second iteration on, when DDP has put gradients in the order in which they become ready; find_unused_parameters=True without static_graph=True keeps it from doing so.",
    "Gradients of several dtypes or devices get buckets, and use up caps, of their own."
  ],
  "priced_as": "one all-reduce for each bucket, under backward, in the last micro-batch, if the others run under no_sync()",
  "verified": [
    "PyTorch 1.13 and 2.13 made the buckets, read back through a communication hook; 2.10 lacks bucket_cap_mb_list, 2.11 has it."
  ],
  "does_not": [
    "compress: a communication hook does (--emit comm-hook).",
    "make these buckets under torch.compile, where DDPOptimizer cuts the graph at the largest cap, unless torch._dynamo.config.optimize_ddp = False; the Python reducer refuses lists."
  ]
}
)raw");
}

TEST_CASE("emit: Horovod, to the letter") {
  const Planned planned(five(), of_counts({2, 2, 1}));
  CHECK(planned.emit("horovod").text ==
        R"raw(# Horovod for model "small": 3 groups for 2 workers (pipeline wfbp, 1160.4 us per iteration)
# makes exactly the groups of the plan
# environment of every worker:
#   HOROVOD_DISABLE_GROUP_FUSION=1
#   HOROVOD_FUSION_THRESHOLD=4194304  # bytes; the largest group must fit
import horovod.torch as hvd

parameters = dict(model.named_parameters())
groups = [[parameters[name] for name in names] for names in [
    ["classifier.bias", "classifier.weight"],
    ["features.3.weight", "features.0.bias"],
    ["features.0.weight"],
]]
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), groups=groups)  # lists: after 0.21
#
# Without groups, HOROVOD_FUSION_THRESHOLD=3670016 does best:
# 3 groups, 1110.0 us per iteration: gains 50.4 us (4.34 %)
# (the best of the 8 groupings that one number can make)
# These times are without a cycle; with groups on Horovod's own ticks of 1 ms:
# 3 groups, 1960.4 us per iteration: loses 800.0 us (68.94 %)
# Priced: one all-reduce for each group, under backward, at the tick after its last gradient.
# Verified: by reading Horovod at 2626dc87, not by running it.
# Does not compress, unless DistributedOptimizer is given compression=hvd.Compression.fp16.
)raw");
  CHECK(json_of(planned, "horovod") == R"raw({
  "target": "horovod",
  "groups_reproduced": true,
  "iteration_us": 1160.4256,
  "makes": {"groups": 3, "iteration_us": 1160.4256, "loss_us": 0.0, "loss_percent": 0.0},
  "HOROVOD_DISABLE_GROUP_FUSION": 1,
  "HOROVOD_FUSION_THRESHOLD": 4194304,
  "cycle_ms": 0.0,
  "at_default_cycle": {
    "cycle_ms": 1,
    "groups": 3,
    "iteration_us": 1960.4256,
    "loss_us": 800.0,
    "loss_percent": 68.94022331117135
  },
  "best_single_cap": {
    "HOROVOD_FUSION_THRESHOLD": 3670016,
    "groups": 3,
    "iteration_us": 1110.0256,
    "loss_us": -50.4,
    "loss_percent": -4.3432340686037945,
    "tried": 8,
    "exhaustive": true
  },
  "differs": [],
  "notes": [],
  "priced_as": "one all-reduce for each group, under backward, at the tick after its last gradient",
  "verified": ["by reading Horovod at 2626dc87, not by running it."],
  "does_not": ["compress, unless DistributedOptimizer is given compression=hvd.Compression.fp16."]
}
)raw");
}

TEST_CASE("emit: DeepSpeed, to the letter") {
  const Planned planned(five(), of_counts({2, 2, 1}), "zero");
  CHECK(planned.emit("deepspeed").text ==
        R"raw(# DeepSpeed for model "small": 3 groups for 2 workers (pipeline zero, 1130.4 us per iteration)
# makes 3 groups, 1615.2 us per iteration: loses 484.8 us (42.89 %)
ds_config = {
    "zero_optimization": {
        "stage": 1,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_bucket_size": 1000000,  # elements
    },
    "communication_data_type": "fp32",
}
# 3 of the plan's groups are made otherwise:
#   group 1: its 4004000 bytes travel in 2 groups of 4000, 4000000 bytes
#   group 2: its 2400256 bytes travel in one group of 3600256 bytes
#   group 3: its 1200000 bytes travel in one group of 3600256 bytes
# DeepSpeed takes one number for all groups.
# reduce_bucket_size = 1000000 is the best of the 8 groupings that one number can make.
# Priced: a bucket is all-reduced when the first gradient of the next one is there, and backward
# then waits for the bucket before it; one all-gather of all parameters follows the step.
# Verified: DeepSpeed 0.19.8 ran these collectives, when and in the micro-batch that is said, read
# back from two ranks on CPUs; what waits for what on a GPU by reading 0.19.6 (edaa7221).
# Does not reduce-scatter gradients, unless "use_multi_rank_bucket_allreduce" is False: then it
# reduces each owner's part by itself, which is not priced.
# Does not use allgather_bucket_size where PyTorch has all_gather_into_tensor (1.13 or later).
# Does not overlap the all-gather of parameters with the next forward pass.
# Does not send a gradient that is larger than the bucket in one piece: it is cut between workers'
# parts, which is not priced.
)raw");
  CHECK(json_of(planned, "deepspeed") == R"raw({
  "target": "deepspeed",
  "groups_reproduced": false,
  "iteration_us": 1130.4256,
  "makes": {"groups": 3, "iteration_us": 1615.2384, "loss_us": 484.8128, "loss_percent": 42.887634533400515},
  "groups": [{"tensors": 1, "bytes": 4000}, {"tensors": 1, "bytes": 4000000}, {"tensors": 3, "bytes": 3600256}],
  "best_single_cap": {
    "reduce_bucket_size": 1000000,
    "groups": 3,
    "iteration_us": 1615.2384,
    "loss_us": 484.8128,
    "loss_percent": 42.887634533400515,
    "tried": 8,
    "exhaustive": true
  },
  "differs": [
    {"group": 1, "why": "its 4004000 bytes travel in 2 groups of 4000, 4000000 bytes"},
    {"group": 2, "why": "its 2400256 bytes travel in one group of 3600256 bytes"},
    {"group": 3, "why": "its 1200000 bytes travel in one group of 3600256 bytes"}
  ],
  "notes": [
    "DeepSpeed takes one number for all groups.",
    "reduce_bucket_size = 1000000 is the best of the 8 groupings that one number can make."
  ],
  "priced_as": "a bucket is all-reduced when the first gradient of the next one is there, and backward then waits for the bucket before it; one all-gather of all parameters follows the step",
  "verified": [
    "DeepSpeed 0.19.8 ran these collectives, when and in the micro-batch that is said, read back from two ranks on CPUs; what waits for what on a GPU by reading 0.19.6 (edaa7221)."
  ],
  "does_not": [
    "reduce-scatter gradients, unless \"use_multi_rank_bucket_allreduce\" is False: then it reduces each owner's part by itself, which is not priced.",
    "use allgather_bucket_size where PyTorch has all_gather_into_tensor (1.13 or later).",
    "overlap the all-gather of parameters with the next forward pass.",
    "send a gradient that is larger than the bucket in one piece: it is cut between workers' parts, which is not priced."
  ]
}
)raw");
}

TEST_CASE("emit: Megatron-LM, to the letter") {
  const Planned planned(five(), of_counts({2, 2, 1}));
  CHECK(planned.emit("megatron").text ==
        R"raw(# Megatron-LM for model "small": 3 groups for 2 workers (pipeline wfbp, 1160.4 us per iteration)
# makes 2 groups, 1110.4 us per iteration: gains 50.0 us (4.31 %)
--overlap-grad-reduce --ddp-bucket-size 1000000
# or --overlap-grad-reduce --ddp-num-buckets 2
# makes 2 groups, 1110.4 us per iteration: gains 50.0 us (4.31 %)
# The default of Megatron-LM, 40000000 elements, makes 1 group, 1360.4 us per iteration: loses 200.0 us (17.24 %)
# The default of Megatron-Bridge, 134217728 elements, makes 1 group, 1360.4 us per iteration: loses 200.0 us (17.24 %)
# 2 of the plan's groups are made otherwise:
#   group 2: its 2400256 bytes travel in one group of 3600256 bytes
#   group 3: its 1200000 bytes travel in one group of 3600256 bytes
# Megatron-LM takes one number for all groups.
# ddp_bucket_size = 1000000 is the best of the 8 groupings that one number can make.
# Priced: one all-reduce for each bucket, under backward.
# Verified: megatron-core 0.16.1 made the buckets, and ran these collectives when it is said, on a
# CPU; streams and options by reading Megatron-LM at d98e8a64 and Megatron-Bridge at 067f987d.
# Does not have buckets in any pipeline stage but the first.
# Does not reduce gradients of a bfloat16 job in bfloat16 without --grad-reduce-in-bf16.
# Does not keep tied embeddings in the buckets of others with the distributed optimizer.
)raw");
  CHECK(json_of(planned, "megatron") == R"raw({
  "target": "megatron",
  "groups_reproduced": false,
  "iteration_us": 1160.4256,
  "makes": {"groups": 2, "iteration_us": 1110.4256, "loss_us": -50.0, "loss_percent": -4.3087639569482095},
  "groups": [{"tensors": 2, "bytes": 4004000}, {"tensors": 3, "bytes": 3600256}],
  "best_single_cap": {
    "ddp_bucket_size": 1000000,
    "groups": 2,
    "iteration_us": 1110.4256,
    "loss_us": -50.0,
    "loss_percent": -4.3087639569482095,
    "tried": 8,
    "exhaustive": true
  },
  "differs": [
    {"group": 2, "why": "its 2400256 bytes travel in one group of 3600256 bytes"},
    {"group": 3, "why": "its 1200000 bytes travel in one group of 3600256 bytes"}
  ],
  "notes": [
    "Megatron-LM takes one number for all groups.",
    "ddp_bucket_size = 1000000 is the best of the 8 groupings that one number can make."
  ],
  "priced_as": "one all-reduce for each bucket, under backward",
  "verified": [
    "megatron-core 0.16.1 made the buckets, and ran these collectives when it is said, on a CPU; streams and options by reading Megatron-LM at d98e8a64 and Megatron-Bridge at 067f987d."
  ],
  "does_not": [
    "have buckets in any pipeline stage but the first.",
    "reduce gradients of a bfloat16 job in bfloat16 without --grad-reduce-in-bf16.",
    "keep tied embeddings in the buckets of others with the distributed optimizer."
  ],
  "best_num_buckets": {
    "ddp_num_buckets": 2,
    "groups": 2,
    "iteration_us": 1110.4256,
    "loss_us": -50.0,
    "loss_percent": -4.3087639569482095
  },
  "at_defaults": {
    "megatron_lm": {
      "elements": 40000000,
      "groups": 1,
      "iteration_us": 1360.4256,
      "loss_us": 200.0,
      "loss_percent": 17.235055827792838
    },
    "megatron_bridge": {
      "elements": 134217728,
      "groups": 1,
      "iteration_us": 1360.4256,
      "loss_us": 200.0,
      "loss_percent": 17.235055827792838
    }
  }
}
)raw");
}

TEST_CASE("emit: FSDP, to the letter") {
  const Planned planned(five(), of_counts({2, 2, 1}), "zero");
  CHECK(planned.emit("fsdp").text ==
        R"raw(# FSDP for model "small": 3 groups for 2 workers (pipeline zero, 1130.4 us per iteration)
# makes 2 groups, 1155.2 us per iteration: loses 24.8 us (2.19 %)
from torch import nn
from torch.distributed.fsdp import fully_shard  # PyTorch 2.6 or later

def parts(module):  # fully_shard() refuses containers that cannot be called
    is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict))
    return [p for c in module.children() for p in parts(c)] if is_container else [module]

modules = dict(model.named_modules())
for names, reshards in [  # reshards: released after forward and gathered again before backward
    (["classifier"], False),
    (["features"], False),
]:
    fully_shard([p for name in names for p in parts(modules[name])], reshard_after_forward=reshards)
fully_shard(model, reshard_after_forward=False)
# 2 of the plan's groups are made otherwise:
#   group 2: cuts through module "features.0"
#   group 3: cuts through module "features.0"
# Module names are the tensors' without their last part.
# Priced: the parameters of a group are gathered under the forward pass and kept until the last
# backward pass; under that its gradients are reduce-scattered, for which backward waits for the
# reduce-scatter before.
# Verified: PyTorch 2.13 made the groups, and its collectives ran in this order and in these types,
# read back from two ranks over Gloo.
# Does not split the parameters that one module owns.
# Does not all-reduce whole gradients: it scatters them and gathers parameters, whatever the plan's
# pipeline.
# Does not know the last micro-batch: set_requires_gradient_sync() and set_reshard_after_backward()
# tell it, and are written if the scenario accumulates.
# Does not compress.
)raw");
  CHECK(json_of(planned, "fsdp") == R"raw({
  "target": "fsdp",
  "groups_reproduced": false,
  "iteration_us": 1130.4256,
  "makes": {"groups": 2, "iteration_us": 1155.2256, "loss_us": 24.8, "loss_percent": 2.1938639747719795},
  "fully_shard": [["classifier"], ["features"]],
  "groups": [{"tensors": 2, "bytes": 4004000}, {"tensors": 3, "bytes": 3600256}],
  "reshards": [false, false],
  "prefetch": 1,
  "scatters_in_flight": 1,
  "micro_batches": 1,
  "kept_between_micro_batches": false,
  "least_pytorch": "2.6",
  "differs": [
    {"group": 2, "why": "cuts through module \"features.0\""},
    {"group": 3, "why": "cuts through module \"features.0\""}
  ],
  "notes": ["Module names are the tensors' without their last part."],
  "priced_as": "the parameters of a group are gathered under the forward pass and kept until the last backward pass; under that its gradients are reduce-scattered, for which backward waits for the reduce-scatter before",
  "verified": [
    "PyTorch 2.13 made the groups, and its collectives ran in this order and in these types, read back from two ranks over Gloo."
  ],
  "does_not": [
    "split the parameters that one module owns.",
    "all-reduce whole gradients: it scatters them and gathers parameters, whatever the plan's pipeline.",
    "know the last micro-batch: set_requires_gradient_sync() and set_reshard_after_backward() tell it, and are written if the scenario accumulates.",
    "compress."
  ]
}
)raw");
}

TEST_CASE("emit: plain data is the groups and nothing else") {
  const Planned planned(five(), of_counts({2, 2, 1}));
  CHECK(planned.emit("json").text == R"raw({
  "target": "json",
  "groups": [
    {"tensors": ["classifier.bias", "classifier.weight"], "bytes": 4004000},
    {"tensors": ["features.3.weight", "features.0.bias"], "bytes": 2400256},
    {"tensors": ["features.0.weight"], "bytes": 1200000}
  ],
  "bucket_cap_mb_list": [3, 2.289, 1]
}
)raw");
  CHECK(planned.emit("json").text == json_of(planned, "json"));
}

Sizes random_sizes(Random& random) {
  Sizes out;
  for (std::uint32_t i = 1 + random.below(20); i > 0; --i)
    out.push_back(2 * (random.one_in(3) ? random.between(1, 4) : random.between(1, 100)));
  return out;
}

std::int64_t sum(const Sizes& sizes, const Group& group) {
  std::int64_t out = 0;
  for (std::uint32_t i = group.begin; i < group.end; ++i) out += sizes[i];
  return out;
}

TEST_CASE("emit: the rules of caps are those of the fusions that the simulator has") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 20), support::pair_of(5, 0.001));
    Sizes bytes;
    std::vector<sim::Time> ready;
    for (const Gradient& gradient : scene.setting.workload.gradients) {
      bytes.push_back(gradient.bytes);
      ready.push_back(gradient.ready);
    }
    const std::int64_t cap = random.between(1, 20'000);
    const std::int64_t first = random.between(1, 20'000);
    CHECK(close_at(bytes, cap, {first}).groups ==
          support::fuse(
              fmt::format(R"({{"kind": "buckets", "cap_bytes": {}, "first_cap_bytes": {}}})", cap, first),
              scene));
    std::vector<sim::Time> ticks;  // a tick every 64 us
    for (const sim::Time time : ready)
      ticks.push_back(sim::from_us(64) * ((time + sim::from_us(64) - sim::Time(1)) / sim::from_us(64)));
    CHECK(add_within(bytes, cap, ticks).groups ==
          support::fuse(fmt::format(R"({{"kind": "threshold", "cap_bytes": {}, "cycle_us": 64}})", cap),
                        scene));
    CHECK(add_within(bytes, cap).groups ==
          support::fuse(fmt::format(R"({{"kind": "threshold", "cap_bytes": {}}})", cap), scene));
  }
}

TEST_CASE("emit: a rule names the next cap that makes other groups, and the best cap beats every other") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Sizes sizes = random_sizes(random);
    const std::int64_t total = sum(sizes, {.begin = 0, .end = static_cast<std::uint32_t>(sizes.size())});
    const Sizes firsts = random.one_in(2) ? Sizes{} : Sizes{random.between(1, 200)};
    const std::int64_t alignment = random.one_in(2) ? 1 : 8;
    const std::uint32_t shift = random.below(1000);
    const auto cost = [&](const Groups& groups) {  // arbitrary, but equal for equal groups
      std::uint32_t hash = shift;
      for (const Group& group : groups) hash = hash * 31 + group.end * 7;
      return static_cast<double>(hash % 50);
    };
    for (const bool closes : {true, false}) {
      CAPTURE(closes);
      const auto rule = [&](std::int64_t cap) {
        return closes ? close_at(sizes, cap, firsts, alignment) : add_within(sizes, cap);
      };
      const BestCap best = best_cap(rule, cost);
      CHECK(best.is_every);
      std::int64_t groupings = 1;
      Capped now = rule(1);
      for (std::int64_t cap = 1; cap <= 8 * total; ++cap) {
        const Capped after = rule(cap + 1);
        const bool changes = now.groups != after.groups;
        const bool is_best = cap >= best.min && (best.max == 0 || cap <= best.max);
        const bool holds = changes == (now.next_cap == cap + 1) &&
                           (now.next_cap == 0 || now.next_cap > cap) &&
                           best.iteration_us <= cost(now.groups) && (!is_best || now.groups == best.groups);
        if (!holds) FAIL_CHECK("a cap of ", cap);
        groupings += changes ? 1 : 0;
        now = after;
      }
      CHECK(best.tried == groupings);
    }
  }
}

TEST_CASE("emit: where caps are too many the best of larger and larger steps is taken") {
  Sizes sizes;
  Random random(7);
  for (int i = 0; i < 1500; ++i) sizes.push_back(random.between(1, 1'000'000'000));
  std::int64_t calls = 0;
  const BestCap best =
      best_cap([&](std::int64_t cap) { return close_at(sizes, cap); },
               [&](const Groups& groups) { return ++calls, static_cast<double>(groups.size()); });
  CHECK_FALSE(best.is_every);
  CHECK(best.tried == calls);
  CHECK(best.tried > 4'000'000 / 1500);
  CHECK(best.tried < 4'000);
  CHECK(best.groups.size() == 1);
}

TEST_CASE("emit: Megatron-LM's distributed optimizer counts from multiples of 64 elements") {
  // 65 reaches 65; the next starts at 128 and ends at 138, which is the cap; without alignment 65 + 10 + 63
  // fits.
  CHECK(support::shown(close_at({65, 10, 63, 1}, 138, {}, 64).groups) == "2 2");
  CHECK(support::shown(close_at({65, 10, 63, 1}, 138).groups) == "3 1");
  CHECK(support::shown(close_at({65, 10, 63, 1}, 139, {}, 64).groups) == "3 1");
  CHECK(close_at({65, 10, 63, 1}, 138, {}, 64).next_cap == 139);
}

TEST_CASE("emit: round numbers are the roundest of their range") {
  CHECK(roundest(1, 1, 10) == 1);
  CHECK(roundest(12'345, 13'999, 10) == 13'000);
  CHECK(roundest(12'345, 12'399, 10) == 12'350);
  CHECK(roundest(26, 36, 10) == 30);
  CHECK(roundest(7, 2'000, 10) == 1'000);
  CHECK(roundest(5, 100, 2) == 64);
  CHECK(roundest(3'600'256, 4'003'999, 2) == 3'670'016);
  CHECK(roundest(1'000'003, 1'000'003, 2) == 1'000'003);
}

TEST_CASE("emit: MiB are as short as they can be and DDP takes them for bytes of the range") {
  CHECK(mib_text(1, 25 << 20) == "25");
  CHECK(mib_text(25 << 20, 25 << 20) == "25");
  CHECK(mib_text((25 << 20) + 1, 26 << 20) == "26");
  CHECK(mib_text((25 << 20) + 1, (26 << 20) - 1) == "25.9");
  CHECK(mib_text(3, 4) == "0.000004");
  CHECK(bytes_of_mib(mib_text(1, 1)) == 1);
  CHECK(bytes_of_mib("0.5") == 524'288);
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::int64_t max = random.between(2, 4'000'000'000);
    if (random.one_in(10)) max *= 1'999'999;  // close to the maximum bytes of a file
    const std::int64_t min =
        max - random.below(static_cast<std::uint32_t>(std::min<std::int64_t>(max, 1 << (1 + seed % 24))));
    const std::string mb = mib_text(min, max);
    CHECK(bytes_of_mib(mb) >= min);
    CHECK(bytes_of_mib(mb) <= max);
    const std::size_t dot = mb.find('.');
    if (dot == std::string::npos || mb.find('e') != std::string::npos || max > (std::int64_t{1} << 40))
      continue;
    std::int64_t scale = 1;  // with one decimal less, the first number that is not too small is too large
    for (std::size_t i = dot + 2; i < mb.size(); ++i) scale *= 10;
    const std::int64_t units = (min * scale + (1 << 20) - 1) >> 20;
    CHECK(bytes_of_mib(fmt::format("{}.{:0{}}", units / scale, units % scale, mb.size() - dot - 2)) > max);
  }
}

/// A random model: modules up to three deep; upper modules may own tensors, too.
core::Profile random_model(Random& random) {
  std::vector<std::pair<std::string, std::int64_t>> tensors;
  for (std::uint32_t i = 1 + random.below(12); i > 0; --i) {
    std::string name;
    for (std::uint32_t depth = random.below(4); depth > 0; --depth)
      name += static_cast<char>('a' + random.below(3)) + std::string(".");
    tensors.push_back({fmt::format("{}p{}", name, i), random.between(1, 5000)});
  }
  if (random.one_in(2)) std::sort(tensors.begin(), tensors.end());
  return named(tensors);
}

/// The rule of fully_shard(): a call takes the tensors below its modules that no earlier call took. Returns
/// the groups by name, including the model's remaining tensors.
std::set<std::set<std::string>> sharded(const core::Profile& profile, const ordered_json& calls) {
  std::set<std::string> left;
  for (const core::ProfileLayer& layer : profile.layers) left.insert(layer.tensors[0].name);
  std::set<std::set<std::string>> out;
  ordered_json all = calls;
  all.push_back({""});
  for (const ordered_json& call : all) {
    std::set<std::string> group;
    for (const std::string module : call)
      for (const std::string& name : left)
        if (module.empty() || name.starts_with(module + ".")) group.insert(name);
    for (const std::string& name : group) left.erase(name);
    if (!group.empty()) out.insert(group);
  }
  return out;
}

TEST_CASE("emit: FSDP makes of the calls what is said, cuts no module, and keeps plans that cut none") {
  int reproduced = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_model(random), support::pair_of(20, 0.001));
    const Workload& workload = scene.setting.workload;
    const Planned planned(scene, support::random_groups(random, workload.gradient_count()));
    const ordered_json json = planned.emit("fsdp").json;
    CAPTURE(json.dump());
    const auto name = [&](std::uint32_t i) {
      return scene.profile.layers[workload.gradients[i].layer].tensors[0].name;
    };
    const auto module = [&](std::uint32_t i) { return name(i).substr(0, name(i).rfind('.') + 1); };

    const std::set<std::set<std::string>> made = sharded(scene.profile, json["fully_shard"]);
    CHECK(made.size() == json["makes"]["groups"]);
    std::set<std::set<std::string>> wanted;
    bool is_cut = false;
    for (const Group& group : planned.groups) {
      std::set<std::string> names;
      for (std::uint32_t i = group.begin; i < group.end; ++i) {
        names.insert(name(i));
        for (std::uint32_t j = 0; j < workload.gradient_count(); ++j)
          is_cut = is_cut || (module(i) == module(j) && (j < group.begin || j >= group.end));
      }
      wanted.insert(names);
    }
    CHECK((made == wanted) == json["groups_reproduced"].get<bool>());
    CHECK(json["differs"].empty() == json["groups_reproduced"].get<bool>());
    if (is_cut) CHECK_FALSE(json["groups_reproduced"]);
    if (json["groups_reproduced"]) ++reproduced;
    for (const std::set<std::string>& group : made) {  // adjacent in backward order
      std::uint32_t runs = 0;
      for (std::uint32_t i = 0; i < workload.gradient_count(); ++i)
        runs += group.contains(name(i)) && (i == 0 || !group.contains(name(i - 1))) ? 1U : 0U;
      CHECK(runs == 1);
    }
  }
  CHECK(reproduced > 50);
}

TEST_CASE("emit: no bucket of TorchInductor holds a module of another, and every module is in one") {
  int joined = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(random_model(random), support::pair_of(20, 0.001));
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()));
    const ordered_json json = planned.emit("inductor").json;
    CAPTURE(json.dump());
    const ordered_json& plans = json["module_bucket_plans"];
    std::size_t alone = 0;  // the model's own
    for (const core::ProfileLayer& layer : scene.profile.layers)
      alone += layer.tensors[0].name.find('.') == std::string::npos ? 1U : 0U;
    CHECK(plans.size() + alone <=
          json["makes"]["groups"].get<std::size_t>());  // one of these may cut a bucket
    if (alone == 0) CHECK(plans.size() == json["makes"]["groups"]);
    if (alone == 0 && json["makes"]["groups"] < planned.emit("fsdp").json["makes"]["groups"]) ++joined;
    for (const core::ProfileLayer& layer : scene.profile.layers) {
      const std::string& tensor = layer.tensors[0].name;
      std::set<std::size_t> buckets;
      for (std::size_t i = 0; i < plans.size(); ++i)
        for (const std::string module : plans[i])
          if (tensor.starts_with(module + ".")) buckets.insert(i);
      CHECK(buckets.size() == (tensor.find('.') == std::string::npos ? 0 : 1));
    }
  }
  CHECK(joined > 10);
}

TEST_CASE("emit: no bucket of TorchInductor reaches over a parameter of the model itself") {
  const Scene scene(
      named({{"start", 100}, {"a.w", 100}, {"middle", 100}, {"b.w", 100}, {"c.w", 100}, {"end", 100}}),
      support::pair_of(20, 0.001));
  const ordered_json json = Planned(scene, of_counts({6})).emit("inductor").json;
  CHECK(json["module_bucket_plans"].dump() == R"([["a"],["b","c"]])");
  CHECK(json["makes"]["groups"] == 5);
  CHECK(json["differs"][0]["why"] == "holds a parameter of the model itself");
}

TEST_CASE("emit: FSDP's calls put what is below before what is above, and join what would not come apart") {
  // The plan groups a's own tensor with b.x, and b's own with a.x: whichever is wrapped first takes both.
  const Scene scene(
      named({{"r", 9}, {"a.w", 100}, {"b.x.w", 100}, {"a.x.w", 100}, {"b.w", 100}, {"c.w", 100}}),
      support::pair_of(20, 0.001));
  const ordered_json joined = Planned(scene, of_counts({1, 2, 2, 1})).emit("fsdp").json;
  CHECK(joined["fully_shard"].dump() == R"([["c"],["a","b"],[""]])");
  CHECK(joined["makes"]["groups"] == 3);
  CHECK(joined["differs"].size() == 2);

  const Scene parent(named({{"w", 100}, {"a.w", 100}, {"a.x.w", 100}, {"a.x.b", 100}}),
                     support::pair_of(20, 0.001));
  const Planned planned(parent, of_counts({2, 1, 1}));
  CHECK(planned.emit("fsdp").json["fully_shard"].dump() == R"([["a.x"],["a"],[""]])");
  CHECK(planned.emit("fsdp").json["groups_reproduced"] == true);
  CHECK(Planned(parent, of_counts({4})).emit("fsdp").json["fully_shard"].dump() == R"([[""]])");
}

TEST_CASE("emit: FSDP moves a boundary inside a module to where the iteration takes less") {
  // Backward yields z, m.c, m.b, m.a at 100 to 400 us and y, small, at 500. The boundary after m.c is nearer
  // to the side before it. If a startup takes 100 us, m and y together end at 724 us, z and m at 660 and y
  // at 764; if it takes 1 us, at 625, and at 561 and 566.
  const core::Profile profile =
      named({{"y.w", 100}, {"m.a", 1000}, {"m.b", 1000}, {"m.c", 1000}, {"z.w", 1000}});
  const Scene slow(profile, support::pair_of(100, 0.01));
  CHECK(Planned(slow, of_counts({2, 3})).emit("fsdp").json["fully_shard"].dump() == R"([["z"],["y","m"]])");
  const Scene fast(profile, support::pair_of(1, 0.01));
  CHECK(Planned(fast, of_counts({2, 3})).emit("fsdp").json["fully_shard"].dump() == R"([["m","z"],["y"]])");
}

TEST_CASE("emit: FSDP names the largest modules that a group has whole, and no part of them") {
  const Scene whole(named({{"f.0.w", 100}, {"f.1.w", 100}, {"g.w", 100}}), support::pair_of(20, 0.001));
  CHECK(Planned(whole, of_counts({1, 2})).emit("fsdp").json["fully_shard"].dump() == R"([["g"],["f"]])");
  CHECK(Planned(whole, of_counts({2, 1})).emit("fsdp").json["fully_shard"].dump() ==
        R"([["f.1","g"],["f.0"]])");
  const Scene rest(named({{"a.y.w", 100}, {"a.w", 100}, {"a.x.w", 100}}), support::pair_of(20, 0.001));
  CHECK(Planned(rest, of_counts({2, 1})).emit("fsdp").json["fully_shard"].dump() == R"([["a.y"],["a"]])");
}

TEST_CASE("emit: groups of the plan that are made do not differ, though others before them do") {
  const ordered_json json = Planned(five(), of_counts({1, 1, 1, 2})).emit("fsdp").json;
  CHECK(json["makes"]["groups"] == 3);
  CHECK(json["differs"].dump() == R"([{"group":1,"why":"cuts through module \"classifier\""},)"
                                  R"({"group":2,"why":"cuts through module \"classifier\""}])");
}

TEST_CASE("emit: FSDP takes a profile's whole layers for modules") {
  core::Profile profile = named({{"layer01", 100}, {"layer02", 100}});
  profile.layers[0].name = "layer01";
  profile.layers[1].name = "layer02";
  const Scene scene(profile, support::pair_of(20, 0.001));
  CHECK(Planned(scene, of_counts({1, 1})).emit("fsdp").json["fully_shard"].dump() ==
        R"([["layer02"],["layer01"]])");
}

TEST_CASE("emit: Horovod keeps the plan's cycle, and says what an own tick would change") {
  // Ticks every 150 us. The groups are ready at 300, 400 and 500, so they are issued at 300, 450 and 600.
  Groups groups = of_counts({3, 1, 1});
  const std::vector<int> ticks_us = {300, 450, 600};
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].tick = sim::from_us(ticks_us[i]);
  const Emission emission = Planned(five(), groups).emit("horovod");
  CHECK(emission.json["groups_reproduced"] == true);
  CHECK(emission.json["cycle_ms"] == 0.15);
  CHECK(emission.text.find("#   HOROVOD_CYCLE_TIME=0.15  # ms, as in the plan\n") != std::string::npos);
  CHECK_FALSE(emission.json.contains("at_default_cycle"));

  groups[2].tick = sim::from_us(750);
  const ordered_json later = Planned(five(), groups).emit("horovod").json;
  CHECK(later["groups_reproduced"] == false);
  CHECK(later["differs"].dump() ==
        R"([{"group":3,"why":"issued no sooner than 600 us after backward began, not 750 us"}])");
}

TEST_CASE("emit: Horovod counts every tensor in multiples of 16 bytes") {
  const Scene scene(named({{"a.b", 1}, {"a.w", (1 << 18) - 1}}),
                    support::pair_of(20, 0.001));  // one MiB in total
  CHECK(Planned(scene, of_counts({2})).emit("horovod").json["HOROVOD_FUSION_THRESHOLD"] == 2 << 20);
}

TEST_CASE("emit: Megatron-LM pads in zero alone, and the number for one group is not far above its size") {
  // With each tensor at a multiple of 64, 1 + 1 reaches 65 and 10 + 10 reaches 74; without alignment no
  // number yields {2}, {2}.
  const Scene scene(named({{"a", 10}, {"b", 10}, {"c", 1}, {"d", 1}}), support::pair_of(20, 0.001));
  const auto best = [&](const char* target, const char* pipeline, const Groups& wanted) {
    const Planned planned(scene, wanted, pipeline);
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
  const ordered_json json = Planned(five(), ticked).emit("ddp").json;
  CHECK(json["groups_reproduced"] == false);
  CHECK(json["bucket_cap_mb_list"].dump() == "[3,3]");
  CHECK(json["differs"].dump() ==
        R"([{"group":2,"why":"issued no sooner than 0 us after backward began, not 1000 us"}])");
  CHECK(json["makes"]["loss_us"] == -349.6);  // 1000 + 410 becomes 650.4 + 410

  Groups swapped = of_counts({2, 3});
  std::swap(swapped[0], swapped[1]);
  const Planned planned(five(), swapped);
  const ordered_json data = emit("ddp", {planned.plan, swapped, five().setting.workload,
                                         [](const Behaviour&, const Groups&) { return 1.0; }})
                                .json;
  CHECK(Planned(five(), ticked).emit("json").json["groups"][1]["not_before_us"] == 1000.0);
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

TEST_CASE("emit: every emitter says the same of itself for any plan, and costs what the simulator says") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random));
    const char* const pipeline = random.one_in(2) ? "wfbp" : random.one_in(2) ? "zero" : "after_backward";
    const Planned planned(scene, support::random_groups(random, scene.setting.workload.gradient_count()),
                          pipeline);
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
        CHECK(emission.json["makes"]["loss_us"] == 0.0);
      const bool does_all = emitter.name == "ddp" || emitter.name == "horovod" || emitter.name == "comm-hook";
      if (does_all) CHECK(emission.json["groups_reproduced"] == true);
      if (does_all || !emission.json.contains("best_single_cap")) continue;
      CHECK(emission.json["makes"]["iteration_us"] == emission.json["best_single_cap"]["iteration_us"]);
    }
  }
}

TEST_CASE("emit: NCCL tuner rules, to the letter, where runs of sizes meet halfway") {
  // Groups of 3,000,000 and 2,000,000 bytes by a ring, one of 1,000,000 by a tree.
  Planned planned(five(), of_counts({2, 2, 1}));
  planned.plan.groups.resize(3);
  planned.plan.groups[0].bytes = 3'000'000;
  planned.plan.groups[1].bytes = 2'000'000;
  planned.plan.groups[2].bytes = 1'000'000;
  planned.plan.groups[2].transfer.all_reduce = Algorithm{.name = "double_binary_tree"};
  const Emission emission = planned.emit("nccl-tuner");
  CHECK(
      emission.text.ends_with("allreduce,0,1500000,tree,simple,-1,-1,2,-1,-1\n"
                              "allreduce,1500001,1125899906842624,ring,simple,-1,-1,2,-1,-1\n"));
  CHECK(emission.json["rules"].size() == 2);
  planned.plan.groups[1].bytes = 1'000'000;
  planned.plan.groups[0].transfer.all_reduce = Algorithm{.name = "halving_doubling"};
  CHECK(
      planned.emit("nccl-tuner")
          .text.ends_with("allreduce,0,1125899906842624,ring,simple,-1,-1,2,-1,-1\n"
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
    Planned planned(five(), of_counts({2, 3}), "zero");
    planned.plan.workers = workers;
    if (of_shard > 0) planned.plan.options.shard_workers = of_shard;
    const Schedule schedule = {.pipeline = &planner::pipeline("zero")};
    scenarios::Prices prices(five().setting, schedule, {});
    return planner::emit("inductor", {planned.plan, planned.groups, five().setting.workload,
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
  const Emission emission = Planned(five(), of_counts({2, 3}), "after_backward").emit("megatron");
  CHECK(emission.json["makes"]["groups"] == 1);
  CHECK_FALSE(emission.json.contains("best_single_cap"));
  CHECK(emission.text.find("--ddp-bucket-size") == std::string::npos);
}

}  // namespace
}  // namespace planner
