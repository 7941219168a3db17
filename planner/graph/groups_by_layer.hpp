// The groups that a pass reaches with each of its layers.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// For each layer, the groups that hold tensors of it and of no earlier layer, in forward order. Where
/// parameters are sharded, those that are not trained count, too.
std::vector<std::vector<std::uint32_t>> groups_by_first_layer(const Workload& workload, const Groups& groups,
                                                              Sharding sharding);

/// For each step of backward, the groups that hold tensors of its layer and of no layer that backward reaches
/// earlier. A layer's groups are listed at its first step.
std::vector<std::vector<std::uint32_t>> groups_by_first_step(const Workload& workload, const Groups& groups,
                                                             Sharding sharding);

}  // namespace planner
