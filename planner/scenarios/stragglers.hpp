// Workers that are slower than the others, at computing or at sending.

#pragma once

#include <vector>

#include "core/field.hpp"
#include "planner/job/conditions.hpp"

namespace scenarios {

/// `[{"worker": 3, "slowdown": 1.5}, ...]`, each worker once; throws InputError.
std::vector<planner::Straggler> read_stragglers(const core::Field& field);

}  // namespace scenarios
