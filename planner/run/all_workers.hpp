// Every worker by itself: one worker's task graph run on all of them at once, each with its own speed, draws
// and failures. Collectives are what they meet at.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/outages.hpp"
#include "planner/run/worker_accounts.hpp"

namespace planner {

/// The executable is of the setting without stragglers; `setting` tells who is slow and who fails. Spans are
/// kept of the workers `shown` (each once). Throws NeverEnds, and Unsupported where the network does not say
/// what messages take.
AllWorkers simulate_all_workers(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown);

}  // namespace planner
