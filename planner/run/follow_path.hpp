// The critical path of a executable on all workers, and the messages that it leads through.

#pragma once

#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/critical_path.hpp"
#include "planner/run/executable.hpp"

namespace planner {

/// Of the iterations that count. `marks`: by mark, then worker. Collectives are looked into from the end on,
/// as long as their messages are at most 2^24 in all.
CriticalPath follow_path(const Setting& setting, const Executable& executable, const PathTracker& tracker,
                         const std::vector<std::vector<sim::Time>>& marks);

}  // namespace planner
