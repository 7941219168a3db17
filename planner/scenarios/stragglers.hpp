// Reads stragglers: workers that compute or send more slowly than the others.

#pragma once

#include <vector>

#include "core/field.hpp"
#include "planner/job/conditions.hpp"

namespace scenarios {

/// Reads `[{"worker": 3, "slowdown": 1.5}, ...]`, each worker at most once; throws InputError.
std::vector<planner::Straggler> read_stragglers(const core::Field& field);

}  // namespace scenarios
