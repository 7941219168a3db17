// The schedule that plans where the user names none.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// The all-reduces of the scenario's schedules, each once, but for those that a pipeline prescribes.
std::vector<planner::Algorithm> all_reduces(const Scenario& scenario);

/// A named schedule with the all-reduce of the scenario's schedules; where they differ, with the one that
/// makes it fastest on this number of workers. A schedule of the scenario stays as it is.
planner::Schedule default_schedule(const Scenario& scenario, std::int64_t workers,
                                   const planner::Schedule& schedule);

}  // namespace scenarios
