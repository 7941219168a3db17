// Constraints on a grouping as a user writes them: sizes, names of tensors, a number of groups.

#pragma once

#include <functional>

#include "core/field.hpp"
#include "planner/choose/rules.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// The rules for a workload. Throws InputError, naming the constraint, where no grouping keeps to them.
using Constraints = std::function<GroupRules(const Workload&)>;

/// An object of `min_group_bytes`, `max_group_bytes`, `fusion_buffer_bytes`, `groups`, `together` and `apart`
/// (lists of lists of tensor names); each may be absent. Throws InputError.
Constraints read_constraints(const core::Field& field);

}  // namespace planner
