// Emitters: the exact texts for five tensors.

#include <string>

#include <doctest/doctest.h>

#include "core/json_text.hpp"
#include "tests/support/planned.hpp"

namespace planner {
namespace {

using support::five_tensors;
using support::of_counts;
using support::of_pipeline;
using support::Planned;

std::string json_of(const Planned& planned, std::string_view target) {
  return core::json_text(planned.emit(target).json);
}

TEST_CASE("emit: DDP, to the letter") {
  // Ready at 100, 200, ... 500 us. {2} 200-650.4, {2} 650.4-940.4, {1} 940.4-1110.4, and 50 of forward.
  const Planned planned(five_tensors(), of_counts({2, 2, 1}));
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
  const Planned planned(five_tensors(), of_counts({2, 2, 1}));
  CHECK(planned.emit("horovod").text ==
        R"raw(# Horovod for model "small": 3 groups for 2 workers (pipeline wfbp, 1160.4 us per iteration)
# makes exactly the groups of the plan
# as it behaves: 3 groups, 1960.4 us per iteration: loses 800.0 us (68.94 %)
# environment of every worker:
#   HOROVOD_DISABLE_GROUP_FUSION=1
#   HOROVOD_FUSION_THRESHOLD=4194304  # bytes; the largest group must fit
#   HOROVOD_CYCLE_TIME=1  # ms, Horovod's default
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
# Without groups, HOROVOD_FUSION_THRESHOLD=8388608 does best:
# 1 group, 1860.4 us per iteration: loses 700.0 us (60.32 %)
# (the best of the 8 groupings that one number can make)
# Priced: one all-reduce for each group, under backward, at the tick after its last gradient.
# Read, not run: Horovod at 2626dc87.
# Does not compress, unless DistributedOptimizer is given compression=hvd.Compression.fp16.
)raw");
  CHECK(json_of(planned, "horovod") == R"raw({
  "target": "horovod",
  "groups_reproduced": true,
  "iteration_us": 1160.4256,
  "makes": {"groups": 3, "iteration_us": 1960.4256, "loss_us": 800.0, "loss_percent": 68.94022331117135},
  "HOROVOD_DISABLE_GROUP_FUSION": 1,
  "HOROVOD_FUSION_THRESHOLD": 4194304,
  "cycle_ms": 1.0,
  "best_single_cap": {
    "HOROVOD_FUSION_THRESHOLD": 8388608,
    "groups": 1,
    "iteration_us": 1860.4256,
    "loss_us": 700.0,
    "loss_percent": 60.32269539727493,
    "tried": 8,
    "exhaustive": true
  },
  "differs": [],
  "notes": [],
  "priced_as": "one all-reduce for each group, under backward, at the tick after its last gradient",
  "verified": [],
  "read_only": ["Horovod at 2626dc87."],
  "does_not": ["compress, unless DistributedOptimizer is given compression=hvd.Compression.fp16."]
}
)raw");
}

TEST_CASE("emit: DeepSpeed, to the letter") {
  const Planned planned(five_tensors(), of_counts({2, 2, 1}), of_pipeline("zero"));
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
# back from two ranks on CPUs.
# Read, not run: what waits for what on a GPU, in 0.19.6 (edaa7221).
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
    "DeepSpeed 0.19.8 ran these collectives, when and in the micro-batch that is said, read back from two ranks on CPUs."
  ],
  "read_only": ["what waits for what on a GPU, in 0.19.6 (edaa7221)."],
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
  const Planned planned(five_tensors(), of_counts({2, 2, 1}));
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
# CPU.
# Read, not run: streams and options, of Megatron-LM at d98e8a64 and Megatron-Bridge at 067f987d.
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
  "verified": ["megatron-core 0.16.1 made the buckets, and ran these collectives when it is said, on a CPU."],
  "read_only": ["streams and options, of Megatron-LM at d98e8a64 and Megatron-Bridge at 067f987d."],
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
  const Planned planned(five_tensors(), of_counts({2, 2, 1}), of_pipeline("zero"));
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
# Verified: PyTorch 2.13 made such groups, and their collectives ran in this order and in these
# types, read back from two ranks over Gloo, and from four in two shard groups.
# Verified: By what its streams wait for, recorded on those four, every task begins as priced, but
# for what is said above.
# Read, not run: streams of a GPU: those of CPUs, which do nothing, were replaced by ones that
# record waits.
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
  "backward_prefetch": 1,
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
    "PyTorch 2.13 made such groups, and their collectives ran in this order and in these types, read back from two ranks over Gloo, and from four in two shard groups.",
    "By what its streams wait for, recorded on those four, every task begins as priced, but for what is said above."
  ],
  "read_only": ["streams of a GPU: those of CPUs, which do nothing, were replaced by ones that record waits."],
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
  const Planned planned(five_tensors(), of_counts({2, 2, 1}));
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

}  // namespace
}  // namespace planner
