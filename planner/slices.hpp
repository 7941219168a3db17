// A simulated run as named slices on tracks, for a timeline viewer.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/predict.hpp"
#include "traces/chrome_trace.hpp"

namespace planner {

/// What a timeline files a task under: "forward", "communication", "compression".
std::string_view category(TaskLabel::Kind kind);

/// Adds the tracks and slices of a run, under the process name `process`.
void add_slices(const Setting& setting, const Run& run, const std::string& process,
                std::vector<traces::Track>& tracks, std::vector<traces::Slice>& slices);

}  // namespace planner
