// Simulates every worker individually where collectives end everywhere at once. Workers then affect each
// other only through the last one that is ready for a collective. So a block of workers, whose times fit the
// first-level cache, runs all tasks up to one that waits for a collective, before the next block does.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/worker_accounts.hpp"

namespace planner {

/// Whether simulate_in_blocks() can run this: closed collectives, no failures, no reading of the input, and
/// no time near the range of the clock.
bool runs_in_blocks(const Setting& setting, const Executable& executable);

/// Same contract and result as simulate_all_workers(), several times faster.
AllWorkers simulate_in_blocks(const Setting& setting, const Executable& executable,
                              const std::vector<std::int64_t>& shown, bool with_path);

}  // namespace planner
