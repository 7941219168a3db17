// Warnings about the costs that a choice rests on.

#pragma once

#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"

namespace planner {

/// Warns about sizes without measurements, times below a physical bound, and formulas used next to
/// measurements.
std::vector<Warning> cost_warnings(const Setting& setting, const CommunicationPlan& plan);

}  // namespace planner
