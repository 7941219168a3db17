// Runs a job with process groups and pipeline stages: with the groups of tensors that its schedule chooses,
// with given ones, and with changed inputs.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "planner/advise/what_if.hpp"
#include "planner/parallel/run.hpp"
#include "planner/run/interval.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// A part of the model and a process group: the first layer of the part, and the first tensor, which both
/// ends of the model may have if it is tied.
using PartName = std::pair<std::string, std::string>;

PartName part_name(const planner::Workload& workload);

/// The groups of tensors of parts and process groups. Those that are missing are one group.
using GroupsByPart = std::map<PartName, planner::Groups>;

GroupsByPart groups_by_part(const planner::ParallelRun& run);

/// The schedule with these groups in place of those that its fusion chooses.
planner::Schedule with_groups(const planner::Schedule& schedule, GroupsByPart groups);

/// Runs a scenario with the key `parallel`. Throws core::Unsupported.
planner::ParallelRun run_divided(const Scenario& scenario, std::int64_t workers,
                                 const planner::Schedule& schedule);

/// The scenario under the change, with the run's parts of the model; messages between stages change with the
/// bandwidth. Throws core::Unsupported.
Scenario with_change(const Scenario& scenario, const planner::ParallelRun& run,
                     const planner::Change& change);

/// Metrics of the run's groups and parts of the model under the change. Throws core::Unsupported.
planner::Metrics what_if_divided(const Scenario& scenario, const planner::Schedule& schedule,
                                 const planner::ParallelRun& run, const planner::Change& change);

/// Whether an input of the run has a spread or a range: a layer of the profile, or a network between nodes.
bool has_spread(const Scenario& scenario, std::int64_t workers);

/// The prediction interval of the run, as planner::interval() has it. None if no input in use has a spread.
std::optional<planner::Interval> interval_divided(const Scenario& scenario, const planner::Schedule& schedule,
                                                  const planner::ParallelRun& run, std::int64_t samples,
                                                  const std::function<void(std::int64_t done)>& progress);

}  // namespace scenarios
