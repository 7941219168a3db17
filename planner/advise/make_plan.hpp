// Writes a plan: the groups of a schedule, their predicted time, and the time of alternatives.

#pragma once

#include "planner/plan/plan_file.hpp"
#include "planner/run/predict.hpp"

namespace planner {

/// `run` is the result of run(setting, schedule). Compares with WFBP, one group, DDP, Horovod and the greedy
/// fusion of MG-WFBP.
PlanFile make_plan(const Setting& setting, const Schedule& schedule, const Run& run);

}  // namespace planner
