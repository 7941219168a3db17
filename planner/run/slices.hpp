// A simulated run as named slices on tracks, for a timeline viewer.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/chrome_trace.hpp"
#include "planner/run/predict.hpp"

namespace planner {

/// What a timeline files a task under: "forward", "communication", "compression".
std::string_view category(TaskLabel::Kind kind);

/// Adds the tracks and slices of a run, under the process name `process`.
void add_slices(const Setting& setting, const Run& run, const std::string& process,
                std::vector<core::Track>& tracks, std::vector<core::Slice>& slices);

}  // namespace planner
