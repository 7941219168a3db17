// Lowers the program of a pipeline to the task graph of one or several workers, over some iterations. The
// simulator runs the graph with simulated time, live workers run it on threads. It knows no pipeline by name.

#pragma once

#include "planner/graph/lowered.hpp"

namespace planner {

/// The sum of all task times must be below sim::kMaxUs.
Lowered lower(const Job& job);

}  // namespace planner
