// Finds the critical path of an executable on all workers and the messages on it.

#pragma once

#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/critical_path.hpp"
#include "planner/run/executable.hpp"

namespace planner {

/// The path covers the counted iterations. `marks` is indexed by mark, then worker. Collectives are examined
/// from the end backwards, up to 2^24 messages in total.
CriticalPath follow_path(const Setting& setting, const Executable& executable, const PathTracker& tracker,
                         const std::vector<std::vector<sim::Time>>& marks);

}  // namespace planner
