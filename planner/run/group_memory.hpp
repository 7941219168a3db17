// The memory that a group of a sharded job takes, without a simulation.

#pragma once

#include <cstdint>

#include "planner/cost/setting.hpp"
#include "planner/job/grouping.hpp"

namespace planner {

/// What a group of a job that shards parameters takes while its passes and collectives run.
struct GroupMemory {
  std::int64_t gathered = 0;   ///< its parameters, whole, with those that are not trained
  std::int64_t gradients = 0;  ///< its gradients, or the sum of those of several micro-batches
  std::int64_t sent = 0;   ///< what its reduce-scatter keeps, from when the gradients are ready to its end
  std::int64_t share = 0;  ///< the worker's share of the reduced gradients
};

/// `transfer` is that of the group.
GroupMemory group_memory(const Setting& setting, const TransferCost& transfer, const Group& group);

/// What a worker of such a job holds all the time, if its shares have this many elements, and those of what
/// is not trained as many as `frozen`.
std::int64_t lasting_bytes(const Setting& setting, std::int64_t elements, std::int64_t frozen);

}  // namespace planner
