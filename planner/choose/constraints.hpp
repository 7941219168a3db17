// User-specified constraints on a grouping: sizes, tensor names, number of groups.

#pragma once

#include <functional>

#include "core/field.hpp"
#include "planner/choose/rules.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// Returns the rules for a workload. Throws InputError that names the constraint if no grouping satisfies
/// them.
using Constraints = std::function<GroupRules(const Workload&)>;

/// Reads an object with the optional keys `min_group_bytes`, `max_group_bytes`, `fusion_buffer_bytes`,
/// `groups`, `together` and `apart` (lists of lists of tensor names). Throws InputError.
Constraints read_constraints(const core::Field& field);

}  // namespace planner
