// Runs one worker's task graph on all workers at once: tasks pass on a vector with one time per worker.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sim/task_graph.hpp"

namespace cluster {

/// Runs one task on all workers. On input each time is the earliest start on its worker, when all
/// predecessors have ended and the stream is free; on output it is the end on that worker.
using RunTask = std::function<void(sim::TaskId task, std::span<sim::Time> times)>;

/// Visits the tasks in `order`, which must be the order in which their streams run them and after all
/// predecessors; the graph must have no interference. Vectors live only as long as a task needs them.
/// O((tasks + dependencies) x workers).
void replay(const sim::TaskGraph& graph, std::span<const sim::TaskId> order, std::uint32_t workers,
            const RunTask& run);

}  // namespace cluster
