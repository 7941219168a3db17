// The schedule that plans where the user names none.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// The all-reduces of the scenario's schedules, each once, but for those that a pipeline prescribes.
std::vector<planner::Algorithm> all_reduces(const Scenario& scenario);

/// A named schedule with the all-reduce of the scenario's schedules; where they differ, with the one that
/// makes it fastest on this number of workers. A schedule of the scenario stays as it is. Where all schedules
/// that the scenario names shard parameters, the first of these whose groups are searched for, or else the
/// first. Where the schedule sends all-reduces and the network did not measure them, the first one that the
/// scenario names and that does without them, or else `fsdp` with the best groups.
planner::Schedule default_schedule(const Scenario& scenario, std::int64_t workers,
                                   const planner::Schedule& schedule);

}  // namespace scenarios
