// The blocks of a model, told by the names of its layers.

#pragma once

#include <optional>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// One group for each block: layers whose names agree up to the first part that is a number, as
/// "model.layers.7" in "model.layers.7.mlp.up_proj", and one for each run of layers outside. In backward
/// order; none if no name has such a part.
std::optional<Groups> blocks_of(const Workload& workload);

}  // namespace planner
