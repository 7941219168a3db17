// Splits tensors into partitions, which the pipeline `priority` sends one by one.

#pragma once

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// Splits each gradient, in backward order, into parts of `partition_bytes`; the last part may be smaller.
/// Throws Unsupported if there are more parts than can be simulated.
Groups partitions_of(const Workload& workload, std::int64_t partition_bytes);

}  // namespace planner
