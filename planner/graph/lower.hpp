// Lowers the program of a pipeline to the task graph of one worker or of several, over some iterations. The
// simulator runs the graph on a clock, live workers run it on threads. Knows no pipeline by name.

#pragma once

#include "planner/graph/lowered.hpp"

namespace planner {

/// All tasks of the job, one after another, must take less than sim::kMaxUs.
Lowered lower(const Job& job);

}  // namespace planner
