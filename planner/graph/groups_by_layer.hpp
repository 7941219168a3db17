// Which groups a pass comes to with which of its layers.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// For each layer, the groups that carry tensors of it and of no layer before it, in forward order.
std::vector<std::vector<std::uint32_t>> groups_by_first_layer(const Workload& workload, const Groups& groups);

/// For each step of backward, the groups that carry tensors of its layer and of no layer that backward comes
/// to before. A layer's groups are listed at its first step.
std::vector<std::vector<std::uint32_t>> groups_by_first_step(const Workload& workload, const Groups& groups);

}  // namespace planner
