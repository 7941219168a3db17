// ZeRO-3 and FSDP: each worker stores a shard of the parameters. The parameters of a group are gathered
// before the forward pass of its layers and again before their backward pass, `prefetch` groups ahead; its
// gradients are scattered after backward, and each worker updates its shard. In HSDP several groups of
// workers hold all shards each; the scattered gradients are then summed over these groups, on a channel of
// its own.

#include <array>

#include "core/limits.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::array<std::string_view, 11> kKeys = {"prefetch",
                                                    "backward_prefetch",
                                                    "reshard_after_forward",
                                                    "kept_groups",
                                                    "reshard_after_backward",
                                                    "scatters_in_flight",
                                                    "shard_workers",
                                                    "shard_level",
                                                    "pad_tensors",
                                                    "gather_early",
                                                    "keep_tied"};

void read_shard_group(const core::Field& field, PipelineOptions& options) {
  if (const auto workers = field.find("shard_workers")) {
    options.shard_workers = workers->integer(2, core::kMaxWorkers);
    options.shard_level.reset();
  }
  if (const auto level = field.find("shard_level")) {
    if (field.has("shard_workers")) level->expected("either shard_workers or shard_level", "both");
    options.shard_level = level->name();
    options.shard_workers.reset();
  }
}

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto ahead = field.find("prefetch"))
    options.prefetch = static_cast<std::uint32_t>(ahead->integer(0, kMaxPrefetch));
  if (const auto ahead = field.find("backward_prefetch"))
    options.backward_prefetch = static_cast<std::uint32_t>(ahead->integer(0, kMaxPrefetch));
  if (const auto reshards = field.find("reshard_after_forward")) {
    options.reshard_after_forward = reshards->boolean();
    options.kept_groups.reset();
  }
  if (const auto kept = field.find("kept_groups")) {
    if (field.has("reshard_after_forward"))
      kept->expected("either reshard_after_forward or kept_groups", "both");
    options.kept_groups = static_cast<std::uint32_t>(kept->integer(0, kMaxPrefetch));
    options.reshard_after_forward.reset();
  }
  if (const auto reshards = field.find("reshard_after_backward"))
    options.reshard_after_backward = reshards->boolean();
  if (const auto scatters = field.find("scatters_in_flight"))
    options.scatters_in_flight = static_cast<std::uint32_t>(scatters->integer(0, kMaxPrefetch));
  if (const auto pads = field.find("pad_tensors")) options.pads_tensors = pads->boolean();
  if (const auto early = field.find("gather_early")) options.gathers_early = early->boolean();
  if (const auto keeps = field.find("keep_tied")) options.keeps_tied = keeps->boolean();
  read_shard_group(field, options);
}

/// By default PyTorch keeps the parameters that backward needs first: those of the last group of the forward
/// pass.
bool is_gathered_again(std::uint32_t group, std::uint32_t groups, const PipelineOptions& options) {
  if (options.keeps_last_group && group == groups - 1) return false;
  if (options.kept_groups) return group >= *options.kept_groups;
  return options.reshard_after_forward.value_or(group > 0);
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program;
  program.prefetch = options.prefetch.value_or(1);
  program.sharding = Sharding::parameters;
  program.backward_prefetch = options.backward_prefetch;
  program.gathers_early = options.gathers_early;
  program.releases_between_batches = options.reshard_after_backward;
  program.scatters_in_flight = options.scatters_in_flight;
  const bool is_replicated = options.shard_workers || options.shard_level;
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::forward, Delivers::own_pass});
  for (std::uint32_t group = 0; group < groups; ++group) {
    if (is_gathered_again(group, groups, options))
      program.ops.push_back({CollectiveKind::all_gather, group, Issue::backward, Delivers::own_pass});
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients,
                           is_replicated ? Delivers::nothing : Delivers::next_iteration});
    if (is_replicated)
      program.ops.push_back({CollectiveKind::all_reduce, group, Issue::scattered, Delivers::next_iteration});
  }
  return program;
}

/// robust samples only a single micro-batch.
bool takes_fusion(std::string_view kind) { return kind != "robust"; }

}  // namespace

Pipeline sharded() {
  return {.name = "sharded",
          .summary = "gather parameters before forward and backward, reduce-scatter gradients (FSDP)",
          .option_keys = kKeys,
          .program = program,
          .read = read,
          .takes_fusion = takes_fusion,
          .takes_compression = false,
          .gathers_parameters = true};
}

}  // namespace planner
