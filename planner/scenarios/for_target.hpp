// Plans for a framework from the start: as it behaves, with the groups and compressors that it can have.

#pragma once

#include "planner/choose/constraints.hpp"
#include "planner/emit/emit.hpp"
#include "planner/run/predict.hpp"
#include "planner/scenarios/prices.hpp"

namespace scenarios {

/// The schedule as far as the framework can run it: without compressors that it lacks, without a choice of
/// all-reduce where all groups are sent alike, and under wfbp where the schedule's pipeline needs servers or
/// partitions.
planner::Schedule schedule_for(const planner::Target& target, const planner::Schedule& schedule);

/// The best groups of those that the framework can form and the constraints, if there are any, allow. The
/// request is that of its behaviour. The proof bounds what better groups may gain.
planner::Grouping best_groups(const planner::Target& target, const planner::Behaviour& behaviour,
                              const planner::FusionRequest& request, const planner::Constraints& constraints);

/// The best plan for a framework, and its prediction.
struct ForTarget {
  planner::Schedule schedule;  ///< with the compressor of all groups, where the framework has only one
  planner::Run run;
  double lower_bound_us = 0;
};

/// `schedule` is the result of schedule_for(); `all_reduce` is as for Prices.
ForTarget plan_for(const planner::Target& target, const planner::Setting& setting,
                   const planner::Schedule& schedule, const planner::Algorithm& all_reduce);

}  // namespace scenarios
