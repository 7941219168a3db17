// Writes a plan: the groups of a schedule, their predicted time, and the time of alternatives.

#pragma once

#include <vector>

#include "planner/plan/plan_file.hpp"
#include "planner/run/predict.hpp"

namespace planner {

/// `run` is the result of run(setting, schedule). Compares with WFBP, one group, DDP, Horovod and the greedy
/// fusion of MG-WFBP.
PlanFile make_plan(const Setting& setting, const Schedule& schedule, const Run& run);

/// A group of a plan: its tensors, and what its transfer has that the first of these has not.
PlanGroup plan_group(const Workload& workload, const Group& group,
                     const std::vector<TransferCost>& transfers);

/// The options with shard groups given by their number of workers, as a plan goes where levels have no names.
/// `transfer` is that of all groups.
PipelineOptions without_level(PipelineOptions options, const TransferCost& transfer);

}  // namespace planner
