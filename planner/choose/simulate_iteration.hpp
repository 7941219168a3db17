// Simulates one iteration of a grouping: the definition that iteration models are tested against.

#pragma once

#include "planner/choose/iteration_spec.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// Returns the same value as IterationModel::value(): with further micro-batches, their compute is excluded.
/// Throws Unsupported if times exceed the clock.
sim::Time simulate_iteration(const IterationSpec& spec, const Groups& groups);

}  // namespace planner
