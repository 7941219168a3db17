// ZeRO-1/2 (DeepSpeed, Megatron's distributed optimizer): reduce-scatter during backward, each worker updates
// its shard, then the parameters are gathered, before the next forward pass or during it. DeepSpeed
// all-reduces instead (use_multi_rank_bucket_allreduce, its default, in
// deepspeed/runtime/zero/stage_1_and_2.py). With stage 2 whole gradients are not kept between micro-batches,
// so that each of these reduces its own.

#include <array>

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::array<std::string_view, 3> kKeys = {"overlap_gather", "stage", "all_reduce_gradients"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto overlap = field.find("overlap_gather")) options.overlap_gather = overlap->boolean();
  if (const auto whole = field.find("all_reduce_gradients")) options.all_reduces = whole->boolean();
  if (const auto stage = field.find("stage")) options.stage = stage->integer(1, 2);
}

Program collectives(std::uint32_t groups, const PipelineOptions& options) {
  if (options.overlap_gather) return pipeline("dear").program(groups, options);
  Program program;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::nothing});
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::updated, Delivers::next_iteration});
  return program;
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program = collectives(groups, options);
  if (options.all_reduces)
    for (Op& op : program.ops)
      if (op.kind == CollectiveKind::reduce_scatter) op.kind = CollectiveKind::all_reduce;
  program.reduces_each_batch = options.stage == 2;
  program.sharding = options.stage == 2 ? Sharding::gradients : Sharding::optimizer;
  return program;
}

}  // namespace

Pipeline zero() {
  return {
      .name = "zero",
      .summary = "reduce-scatter (or all-reduce) under backward, update a shard, all-gather the parameters",
      .option_keys = kKeys,
      .program = program,
      .read = read,
      .gathers_parameters = true};
}

}  // namespace planner
