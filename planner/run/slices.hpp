// Exports a simulated run as named slices on tracks, for a timeline viewer.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/chrome_trace.hpp"
#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// The category of a task in a timeline: "forward", "communication", "compression".
std::string_view category(TaskLabel::Kind kind);

/// Adds the tracks and slices of the executable with the times of the timeline, under the process name
/// `process`.
void add_slices(const Setting& setting, const Executable& executable, const sim::Timeline& timeline,
                const std::string& process, std::vector<core::Track>& tracks,
                std::vector<core::Slice>& slices);

/// Adds how many tensors the group has, and the names of the first and the last one.
void add_tensors(const Workload& workload, const Group& group, core::Slice& slice);

}  // namespace planner
