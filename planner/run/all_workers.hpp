// Simulates every worker individually: one task graph runs on all workers, each with its own speed, random
// factors and failures. Workers meet in collectives.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/outages.hpp"
#include "planner/run/worker_accounts.hpp"

namespace planner {

/// `executable` is lowered without stragglers; `setting` says which workers are slow and which fail. Spans
/// are recorded for the workers in `shown`, which must be distinct. Without a critical path everything else
/// is the same, in a fraction of the time where collectives go rank by rank. Throws NeverEnds, and
/// Unsupported if the network does not define the cost of messages, if there are too many, or if a time
/// exceeds the clock.
AllWorkers simulate_all_workers(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown, bool with_path = true);

}  // namespace planner
