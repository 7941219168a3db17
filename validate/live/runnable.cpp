#include "validate/live/runnable.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "sim/cluster/patterns.hpp"

namespace live {

bool needs_nodes(const planner::Compressor& compressor) {
  return compressor.between_nodes ||
         (compressor.sparse && planner::find_sparse(compressor.name)->needs_nodes);
}

bool needs_nodes(const RunSpec& spec) {
  return needs_nodes(spec.schedule.compressor) ||
         std::ranges::any_of(spec.schedule.fusion.choices, [](const planner::TransferChoice& choice) {
           return choice.compressor && needs_nodes(*choice.compressor);
         });
}

void check_runnable(const RunSpec& spec) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw core::InputError(fmt::format("{}: expected {} to be run live, got {}", spec.name, expected, got));
  };
  const planner::Conditions& conditions = spec.conditions;
  if (conditions.jitter.any() || !conditions.failures.empty())
    refuse("no jitter and no failures", conditions.jitter.any() ? "jitter" : "failures");
  if (conditions.parallel_tensor_operator) refuse("no parallel tensor operator", "one");
  if (conditions.read_is_overlapped && conditions.read_us > 0)
    refuse("input that is not read during the iteration (\"overlapped\": false)", "overlapped input");
  if (spec.profile.dtype != core::Dtype::float32) refuse("float32 gradients", core::name(spec.profile.dtype));
  if (conditions.data_types.any()) refuse("no data types of its own", "data_types");
  for (const planner::Transfer& transfer : transfers_of(spec))
    if (transfer.compressor.low_rank && !planner::has_shapes(spec.profile))
      refuse("a profile with the shapes of all tensors, which PowerSGD compresses", "a tensor without");
  const planner::Algorithm& all_reduce = spec.schedule.all_reduce.value_or(spec.all_reduce);
  if (cluster::find_pattern(all_reduce.name) == nullptr)
    refuse("an all-reduce between workers, without servers", all_reduce.name);
  if (needs_nodes(spec) && spec.workers % spec.workers_per_node != 0)
    refuse(fmt::format("full nodes of {} workers", spec.workers_per_node), std::to_string(spec.workers));
  const auto program = spec.schedule.pipeline->program(1, spec.schedule.options);
  if (program.reduces_each_batch && conditions.accumulation_steps > 1)
    refuse("gradients that are reduced in the last micro-batch", "stage 2, which reduces them in each");
  if (program.has_channel_between()) refuse("one shard group, as a worker has one channel", "several");
  if (!program.has_all_reduces_alone() && all_reduce.name != "ring")
    refuse("ring for a pipeline of halves", all_reduce.name);
}

void check_carried(const RunSpec& spec, std::string_view backend) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw core::InputError(
        fmt::format("{}: expected {} with --backend {}, got {}", spec.name, expected, backend, got));
  };
  for (const planner::Transfer& transfer : transfers_of(spec)) {
    if (!transfer.compressor.is_none()) refuse("no compression", core::printable(transfer.compressor.name));
    if (transfer.all_reduce.name != "ring")
      refuse("ring, as the library chooses the algorithm itself", transfer.all_reduce.name);
  }
}

}  // namespace live
