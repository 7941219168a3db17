// What to doubt about the costs that a choice rests on.

#pragma once

#include <vector>

#include "planner/run/executable.hpp"
#include "planner/cost/setting.hpp"

namespace planner {

/// Sizes that nobody measured, times under a physical bound, formulas mixed with measurements.
std::vector<Warning> cost_warnings(const Setting& setting, const CommunicationPlan& plan);

}  // namespace planner
