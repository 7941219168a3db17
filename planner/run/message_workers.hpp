// Every worker by itself with collectives message by message: what workers compute and what travels between
// them are events of one simulation.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/run/all_workers.hpp"

namespace planner {

/// As simulate_all_workers(), for more than one worker.
AllWorkers simulate_by_messages(const Setting& setting, const Run& run,
                                const std::vector<std::int64_t>& shown);

}  // namespace planner
