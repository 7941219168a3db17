// The general way to simulate every worker where no messages share links.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/worker_accounts.hpp"

namespace planner {

/// Runs one task after the other, each on all workers. Same contract as simulate_all_workers(), which calls
/// it where nothing faster applies; with fidelity `messages` it requires rings that share no link.
AllWorkers simulate_task_by_task(const Setting& setting, const Executable& executable,
                                 const std::vector<std::int64_t>& shown, bool with_path);

}  // namespace planner
