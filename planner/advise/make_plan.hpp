// Makes a plan: the groups a schedule chooses, what they are predicted to take, and what others would.

#pragma once

#include "planner/plan/plan_file.hpp"
#include "planner/run/predict.hpp"

namespace planner {

/// `run` is what run(setting, schedule) gave. Compares with WFBP, one group, DDP, Horovod and MG-WFBP's
/// greedy.
PlanFile make_plan(const Setting& setting, const Schedule& schedule, const Run& run);

}  // namespace planner
