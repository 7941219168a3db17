// Runs one worker's task graph on every worker at once: what goes from task to task is a vector of times, one
// for each worker.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sim/task_graph.hpp"

namespace cluster {

/// What a task does to the workers. On the way in each time says when its worker could begin, as all that the
/// task waits for has ended there and its stream is free; on the way out, when it has ended on that worker.
using RunTask = std::function<void(sim::TaskId task, std::span<sim::Time> times)>;

/// Each task in the order of its ids, which must be that in which its stream runs it and later than all that
/// it waits for; the graph must be without interference. Vectors live only as long as something waits for
/// them. O((tasks + dependencies) x workers).
void replay(const sim::TaskGraph& graph, std::uint32_t workers, const RunTask& run);

}  // namespace cluster
