// Every worker by itself with collectives message by message: what workers compute and what travels between
// them are events of one simulation.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/run/worker_accounts.hpp"

namespace planner {

/// As simulate_all_workers() with fidelity `messages`, for more than one worker.
AllWorkers simulate_by_messages(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown);

}  // namespace planner
