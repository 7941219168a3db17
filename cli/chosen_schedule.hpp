// The options that choose what is planned.

#pragma once

#include <cstdint>
#include <string>

#include "cli/command_line.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/scenario.hpp"

namespace cli {

/// Adds --workers, with `default_workers` in its help, and --schedule, which is returned.
Option add_plan_options(const Command& command, std::int64_t& workers, const std::string& default_workers,
                        std::string& schedule);

/// The schedule of the scenario with this name, otherwise the named schedule of the program. Throws
/// InputError that names the option --schedule.
planner::Schedule chosen_schedule(const std::string& name, const scenarios::Scenario& scenario);

/// The only schedule of the scenario that shards parameters, or the first of several whose groups are
/// searched for. Throws InputError that names the option --schedule if there is none.
planner::Schedule only_sharded_schedule(const scenarios::Scenario& scenario);

/// The schedule that runs a plan with all its options; `file` is the plan's.
planner::Schedule schedule_of_plan(const planner::PlanFile& plan, const core::Field& file,
                                   const std::string& name);

}  // namespace cli
