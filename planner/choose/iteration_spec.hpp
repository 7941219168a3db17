// An iteration whose grouping is not chosen yet: the input of planners and their models.

#pragma once

#include <vector>

#include "planner/cost/costs.hpp"
#include "planner/cost/setting.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// Refers to the setting, which must outlive it. The constructor throws Unsupported if no grouping can be
/// simulated.
struct IterationSpec {
  IterationSpec(const Setting& its_setting, const Pipeline& its_pipeline, const PipelineOptions& its_options,
                std::vector<TransferCost> its_transfers, bool is_in_partitions = false);
  IterationSpec(const IterationSpec&) = delete;
  IterationSpec& operator=(const IterationSpec&) = delete;
  ~IterationSpec() = default;

  const Setting& setting;
  const Workload& workload;
  const Costs& costs;  ///< costs of the schedule's own all-reduce, uncompressed
  const Extras& extras;
  const Overlap& overlap;
  const Pipeline& pipeline;
  PipelineOptions options;
  std::vector<TransferCost> transfers;  ///< the transfers that a group may use; the first is the schedule's
                                        ///< own
  /// The number of micro-batches whose gradients are reduced while the next one waits.
  std::int64_t waited_batches;
  bool in_partitions;  ///< whether the only grouping is the one in partitions of `options.partition_bytes`

  Program program(std::size_t groups) const {
    return pipeline.program(static_cast<std::uint32_t>(groups), options);
  }
  /// Whether compute and communication slow each other down.
  bool slows() const { return overlap.slows() && costs.workers() > 1; }
};

}  // namespace planner
