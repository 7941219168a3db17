// Pipelines: when communication runs. A pipeline writes the collectives of one iteration as data; lower()
// turns them into tasks and knows no pipeline; planners choose their model by what the program is
// (make_model).

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "planner/cost/collectives.hpp"
#include "sim/time.hpp"

namespace planner {

/// When a collective may start, besides that the one before it has ended.
enum class Issue {
  gradients,     ///< its group's gradients are ready, and its tick has come
  backward_end,  ///< the backward pass has ended, and its tick has come
  drained,       ///< the backward pass and every collective before it have ended
  updated,       ///< as drained, and the parameters have been updated
  forward,       ///< in each micro-batch before the forward pass of its layers, so many groups ahead
  backward,      ///< likewise before their backward pass
};

/// What waits for a collective.
enum class Delivers {
  nothing,         ///< only the collectives after it
  next_iteration,  ///< the next iteration as a whole
  own_layers,      ///< the next forward pass of the layers whose gradients it carries
  own_pass,        ///< the pass of its layers that it is issued for
};

struct Op {
  core::CollectiveKind kind = core::CollectiveKind::all_reduce;
  std::uint32_t group = 0;
  Issue issue = Issue::gradients;
  Delivers delivers = Delivers::next_iteration;
  bool operator==(const Op&) const = default;
};

/// Where the optimizer runs: once, before the first op that is issued `updated` or else when the channel has
/// drained; or in parts proportional to bytes, each before the forward of its group's layers.
enum class Update { at_once, by_group };

/// A channel that runs, of all that is ready, what is for the layer nearest the input. What has been handed
/// to it can no longer be overtaken.
struct ByLayer {
  std::int64_t credit_bytes = 0;  ///< handed over and not yet done, at most; one that is larger goes alone
  bool operator==(const ByLayer&) const = default;
};

/// The collectives of one iteration in the order in which the channel runs them; those that are issued for a
/// pass come where the pass reaches them.
struct Program {
  std::vector<Op> ops;
  Update update = Update::at_once;
  /// All-gathers under a pass that may have been issued beyond those that compute has come to; none: all.
  std::optional<std::uint32_t> prefetch = {};
  std::optional<ByLayer> by_layer = {};  ///< instead of in order
  sim::Time negotiation{};               ///< on the channel, before each collective
  bool operator==(const Program&) const = default;

  /// How often an op runs in an iteration of so many micro-batches.
  static std::uint32_t runs(const Op& op, std::uint32_t micro_batches) {
    return op.issue == Issue::forward || op.issue == Issue::backward ? micro_batches : 1;
  }
};

/// More groups ahead than any model has tensors.
constexpr std::int64_t kMaxPrefetch = 1'000'000;

/// A pipeline's own keys in a schedule.
struct PipelineOptions {
  bool overlap_gather = true;  ///< zero: gather the parameters under the next forward pass
  /// dear: all-gathers issued beyond those waited for; sharded: groups gathered ahead. None: unlimited in
  /// dear, 1 in sharded.
  std::optional<std::uint32_t> prefetch = {};
  /// sharded: give parameters back after forward and gather them again; none: all but those of the last group
  /// that forward uses, which backward uses first.
  std::optional<bool> reshard_after_forward = {};
  std::int64_t partition_bytes = 4'000'000;  ///< priority, and so for the next two
  std::int64_t credit_bytes = 16'000'000;
  double negotiation_us = 0;
  std::int64_t servers = 1;  ///< parameter_server
  bool operator==(const PipelineOptions&) const = default;
};

struct Pipeline {
  std::string_view name;
  std::string_view summary;
  std::span<const std::string_view> option_keys;
  Program (*program)(std::uint32_t groups, const PipelineOptions& options);
  /// Takes its own keys, which are the only ones besides those of any schedule; null: it has none.
  void (*read)(const core::Field& schedule, PipelineOptions& options) = nullptr;
  /// The all-reduce that it runs instead of any other; null: whichever is asked for.
  Algorithm (*algorithm)(const PipelineOptions& options) = nullptr;
  std::string_view default_fusion = "none";
  /// Whether groups of this kind of fusion can be run; null: all.
  bool (*takes_fusion)(std::string_view kind) = nullptr;
  bool takes_compression = true;
};

/// Every pipeline, in the order in which help lists them.
std::span<const Pipeline> pipelines();
const Pipeline& pipeline(std::string_view name);

/// Of a schedule or a plan whose keys have been checked. Throws InputError.
PipelineOptions read_options(const core::Field& field, const Pipeline& pipeline);
/// Adds the keys whose values are not the defaults, as read_options() takes them.
void write_options(const PipelineOptions& options, nlohmann::ordered_json& out);

}  // namespace planner
