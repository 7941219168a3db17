// Pipelines: when communication runs. A pipeline writes the collectives of one iteration as data; lower()
// turns them into tasks and knows no pipeline; planners choose their model by the program's properties
// (make_model).

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "planner/cost/collectives.hpp"
#include "sim/time.hpp"

namespace planner {

/// The condition for starting a collective, besides the end of the previous one.
enum class Issue {
  gradients,     ///< its group's gradients are ready, and its tick has come
  backward_end,  ///< the backward pass has ended, and its tick has come
  drained,       ///< the backward pass and every collective before it have ended
  updated,       ///< as `drained`, and the parameters have been updated
  forward,       ///< in each micro-batch before the forward pass of its layers, as many groups ahead as
                 ///< `prefetch` allows
  backward,      ///< as `forward`, before the backward pass of its layers
  scattered,     ///< the reduce-scatter of its group has ended; runs on a channel of its own, between workers
                 ///< of different shard groups (Transfer::shard_workers)
};

/// The tasks that wait for a collective.
enum class Delivers {
  nothing,         ///< only the collectives after it
  next_iteration,  ///< the next iteration as a whole
  own_layers,      ///< the next forward pass of the layers whose gradients it carries
  own_pass,        ///< the pass for which it is issued
};

struct Op {
  core::CollectiveKind kind = core::CollectiveKind::all_reduce;
  std::uint32_t group = 0;
  Issue issue = Issue::gradients;
  Delivers delivers = Delivers::next_iteration;
  bool operator==(const Op&) const = default;
};

/// When the optimizer runs: once, before the first op issued as `updated` or else after the channel has
/// drained; or in parts proportional to bytes, each before the forward pass of its group's layers.
enum class Update { at_once, by_group };

/// A channel that runs, of the ready collectives, the one for the layer nearest the input. Collectives
/// already handed to it cannot be overtaken.
struct ByLayer {
  std::int64_t credit_bytes = 0;  ///< maximum bytes handed over and unfinished; a larger collective runs
                                  ///< alone
  bool operator==(const ByLayer&) const = default;
};

/// The state of which each worker holds only its own share between iterations. Each value includes those
/// before it; `gradients` and `parameters` are then whole only around the compute that needs them.
enum class Sharding { nothing, optimizer, gradients, parameters };

/// The collectives of one iteration in channel order; those issued for a pass run when the pass reaches them.
struct Program {
  std::vector<Op> ops;
  Update update = Update::at_once;
  /// Number of all-gathers for a pass that may be issued ahead of compute; unlimited if absent.
  std::optional<std::uint32_t> prefetch = {};
  /// The same for backward passes, if it is another number.
  std::optional<std::uint32_t> backward_prefetch = {};
  /// Whether an all-gather that is ahead of compute waits only until an earlier group's parameters leave
  /// their buffer, which they do when compute comes to them (PyTorch FSDP2): in forward passes those of one
  /// group before, in backward passes those of the last group that was gathered.
  bool gathers_early = false;
  std::optional<ByLayer> by_layer = {};  ///< if set, the channel goes by layer instead of in order
  sim::Time negotiation{};               ///< time on the channel before each collective
  /// A group issued for gradients is issued with the first gradient of the next group (the last one after
  /// backward), and backward goes on when the group before it has arrived (DeepSpeed's overlap_comm).
  bool one_in_flight = false;
  /// Maximum number of reduce-scatters that were issued and have not ended when one more is issued: backward
  /// waits for the oldest (PyTorch FSDP2's reduce_scatter_max_input_buffers). With 0 backward waits for each
  /// one at once (FSDP2 over Gloo). Unlimited if absent.
  std::optional<std::uint32_t> scatters_in_flight = {};
  /// Whether parameters that were gathered for a pass are released after the backward pass of each
  /// micro-batch but the last. If not, forward gathers in the first micro-batch alone.
  bool releases_between_batches = true;
  /// Whether the gradients of each micro-batch are reduced, and the next micro-batch waits for that;
  /// otherwise only those of the last one are.
  bool reduces_each_batch = false;
  Sharding sharding = Sharding::nothing;
  bool operator==(const Program&) const = default;

  /// Whether parameters are gathered for the passes of micro-batches.
  bool has_passes() const {
    return std::any_of(ops.begin(), ops.end(), [](const Op& op) {
      return op.issue == Issue::forward || op.issue == Issue::backward;
    });
  }
  /// Whether micro-batches other than the last may have collectives. Such micro-batches are written layer by
  /// layer.
  bool sends_in_each_batch() const { return has_passes() || reduces_each_batch; }
  /// The number of times that an op runs in an iteration with this number of micro-batches.
  std::uint32_t runs(const Op& op, std::uint32_t micro_batches) const {
    switch (op.issue) {
      case Issue::backward: return micro_batches;
      case Issue::forward: return releases_between_batches ? micro_batches : 1;
      case Issue::drained:
      case Issue::updated: return 1;
      default: return reduces_each_batch ? micro_batches : 1;
    }
  }
  /// Whether gradients are summed by all-reduces and nothing else is sent.
  bool has_all_reduces_alone() const {
    return std::ranges::all_of(ops, [](const Op& op) { return op.kind == core::CollectiveKind::all_reduce; });
  }
  /// Whether a second channel carries collectives between shard groups.
  bool has_channel_between() const {
    return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.issue == Issue::scattered; });
  }
};

/// Exceeds the number of tensors of any model.
constexpr std::int64_t kMaxPrefetch = 1'000'000;

/// The name of the innermost level of any network that does not call another level so.
constexpr std::string_view kNode = "node";

/// A pipeline's own keys in a schedule.
struct PipelineOptions {
  bool overlap_gather = true;  ///< zero: gather the parameters during the next forward pass
  bool all_reduces = false;    ///< zero: sum whole gradients on each worker, which then updates its share
  /// zero: with 2, gradients are dropped but for the worker's share, so that each micro-batch reduces its own
  std::int64_t stage = 1;
  /// dear: all-gathers issued beyond those waited for; sharded: groups gathered ahead. If absent: unlimited
  /// in dear, 1 in sharded.
  std::optional<std::uint32_t> prefetch = {};
  /// sharded: release parameters after forward and gather them again. If absent, this applies to all but the
  /// last group that forward uses, which backward uses first.
  std::optional<bool> reshard_after_forward = {};
  /// sharded: the number of groups, those that backward uses first, whose parameters are kept after forward.
  std::optional<std::uint32_t> kept_groups = {};
  /// sharded: release parameters after the backward pass of each micro-batch, not only of the last.
  bool reshard_after_backward = true;
  std::optional<std::uint32_t> backward_prefetch = {};   ///< sharded: as `prefetch`, for backward passes
  std::optional<std::uint32_t> scatters_in_flight = {};  ///< sharded: as in Program
  /// sharded: the workers that hold all parameters together, where other groups of as many hold the same;
  /// their number, or the level of the network that joins them (kNode: the innermost). If both are absent,
  /// all workers.
  std::optional<std::int64_t> shard_workers = {};
  std::optional<std::string> shard_level = {};
  bool pads_tensors = false;   ///< sharded: as Transfer::pads_tensors
  bool gathers_early = false;  ///< sharded: as in Program
  /// sharded: parameters that the model's input and output share are not released between forward and
  /// backward.
  bool keeps_tied = false;
  bool keeps_last_group = false;  ///< sharded: the group that forward uses first is kept; for_model() sets it
  std::int64_t partition_bytes = 4'000'000;  ///< priority; the next two likewise
  std::int64_t credit_bytes = 16'000'000;
  double negotiation_us = 0;
  std::int64_t servers = 1;  ///< parameter_server
  bool operator==(const PipelineOptions&) const = default;
};

struct Workload;

/// The options with what depends on the model.
PipelineOptions for_model(PipelineOptions options, const Workload& workload);

struct Pipeline {
  std::string_view name;
  std::string_view summary;
  std::span<const std::string_view> option_keys;
  Program (*program)(std::uint32_t groups, const PipelineOptions& options);
  /// Reads its own keys, the only ones besides those of any schedule; null if it has none.
  void (*read)(const core::Field& schedule, PipelineOptions& options) = nullptr;
  /// The all-reduce algorithm that it prescribes; null if it runs the one requested.
  Algorithm (*algorithm)(const PipelineOptions& options) = nullptr;
  std::string_view default_fusion = "none";
  /// Whether groups from this kind of fusion can be run; null if all can.
  bool (*takes_fusion)(std::string_view kind) = nullptr;
  bool takes_compression = true;
  /// Whether its all-gathers carry parameters; otherwise they are halves of an all-reduce of gradients.
  bool gathers_parameters = false;

  /// Whether workers hold shares of the parameters alone, so that all of these are gathered.
  bool shards_parameters(const PipelineOptions& options) const {
    return program(1, options).sharding == Sharding::parameters;
  }
};

/// Every pipeline, in the order in which help lists them.
std::span<const Pipeline> pipelines();
const Pipeline& pipeline(std::string_view name);

/// Reads the options of a schedule or plan whose keys have been checked; those that it does not give are as
/// in `options`. Throws InputError.
PipelineOptions read_options(const core::Field& field, const Pipeline& pipeline,
                             PipelineOptions options = {});
/// Adds the keys whose values are not the defaults, in the form that read_options() reads.
void write_options(const PipelineOptions& options, nlohmann::ordered_json& out);

}  // namespace planner
