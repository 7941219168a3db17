// One iteration of a grouping by simulation: the definition that models are tested against.

#pragma once

#include "planner/choose/iteration_spec.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// As IterationModel::value(): with further micro-batches less what they compute.
sim::Time simulate_iteration(const IterationSpec& spec, const Groups& groups);

}  // namespace planner
