// Tensors cut into partitions, which pipeline priority sends one by one.

#pragma once

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// Each gradient in parts of so many bytes, the last smaller, in backward order. Throws Unsupported where
/// there would be more than a simulation should hold.
Groups partitions_of(const Workload& workload, std::int64_t partition_bytes);

}  // namespace planner
