// Pipelines: when communication runs. A pipeline writes the collectives of one iteration as data; lower()
// turns them into tasks and knows no pipeline.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "planner/costs.hpp"
#include "planner/grouping.hpp"
#include "planner/workload.hpp"

namespace planner {

struct FusionRequest;
class IterationModel;

/// When a collective may start, besides that the one before it has ended.
enum class Issue {
  gradients,     ///< its group's gradients are ready, and its tick has come
  backward_end,  ///< the backward pass has ended, and its tick has come
  drained,       ///< the backward pass and every collective before it have ended
  updated,       ///< as drained, and the parameters have been updated
};

/// What waits for a collective.
enum class Delivers {
  nothing,         ///< only the collectives after it
  next_iteration,  ///< the next iteration as a whole
  own_layers,      ///< the next forward pass of the layers whose gradients it carries
};

struct Op {
  traces::CollectiveKind kind = traces::CollectiveKind::all_reduce;
  std::uint32_t group = 0;
  Issue issue = Issue::gradients;
  Delivers delivers = Delivers::next_iteration;
  bool operator==(const Op&) const = default;
};

/// Where the optimizer runs: once, before the first op that is issued `updated` or else when the channel has
/// drained; or in parts proportional to bytes, each before the forward of its group's layers.
enum class Update { at_once, by_group };

/// The collectives of one iteration in the order in which the channel runs them.
struct Program {
  std::vector<Op> ops;
  Update update = Update::at_once;
  bool operator==(const Program&) const = default;
};

/// A pipeline's own keys in a schedule.
struct PipelineOptions {
  bool overlap_gather = true;  ///< zero: gather the parameters under the next forward pass
  bool operator==(const PipelineOptions&) const = default;
};

/// What surrounds a schedule in every iteration.
struct Extras {
  sim::Time read{};         ///< of the input, where it is not overlapped
  sim::Time update{};       ///< of the optimizer, and of LARS where each worker computes all of it
  sim::Time lars{};         ///< a worker's share of LARS with the parallel tensor operator
  sim::Time lars_gather{};  ///< the all-gather of its results
};

struct Pipeline {
  std::string_view name;
  std::string_view summary;
  std::span<const std::string_view> option_keys;
  Program (*program)(std::uint32_t groups, const PipelineOptions& options);
  /// What planners minimise. Refers to the request, which must outlive it.
  std::unique_ptr<IterationModel> (*model)(const FusionRequest& request);
};

/// Every pipeline, in the order in which help lists them.
std::span<const Pipeline> pipelines();
const Pipeline& pipeline(std::string_view name);

}  // namespace planner
