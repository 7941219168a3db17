// Layers that are computed again in the backward pass need all of their parameters at once: a group that is
// gathered for that pass has to hold whole segments.

#pragma once

#include "planner/cost/setting.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// The gradients of each segment that has to be in one group, in backward order; none if the program gathers
/// nothing for the backward pass, or nothing is computed again.
Groups undivided(const Setting& setting, const Program& program);

/// Throws Unsupported if a segment is divided among groups of which one is gathered for the backward pass.
void check_undivided(const Setting& setting, const Program& program, const Groups& groups);

}  // namespace planner
