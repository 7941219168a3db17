// The schedule that an option names.

#pragma once

#include <string>

#include "planner/scenarios/scenario.hpp"

namespace cli {

/// The schedule of the scenario with this name, otherwise the named schedule of the program. Throws
/// InputError that names the option --schedule.
planner::Schedule chosen_schedule(const std::string& name, const scenarios::Scenario& scenario);

}  // namespace cli
