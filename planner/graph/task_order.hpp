// An order in which the tasks of one worker's graph are simulated on many workers with little memory.

#pragma once

#include <vector>

#include "planner/graph/lowered.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// Every task after all its predecessors, which must have lower ids; the tasks of workers, and those of
/// shared streams, each in the order of the graph. A simulation keeps a time for each worker between a task
/// and those that wait for it. So a shared task comes as soon as it can if a task of the workers leads to it,
/// otherwise just before one waits for it.
std::vector<sim::TaskId> order_with_few_times(const Lowered& lowered);

}  // namespace planner
