// The memory of a worker of one stage over an iteration, derived from the stage's tasks and their times.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/job/conditions.hpp"
#include "planner/parallel/job_graph.hpp"
#include "planner/run/memory.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// What ran. Refers to its members, which must outlive it.
struct RanStages {
  const Parallel& parallel;
  const Conditions& conditions;  ///< with MemoryOptions
  const std::vector<ModelPart>& parts;
  const std::optional<PartGroups>& tied;  ///< the copies of the last stage that the first one sums, too
  const JobGraph& graph;
  const sim::Timeline& timeline;  ///< of the graph
};

/// Activations of a micro-batch are held from its forward pass through a part to the backward pass, or the
/// pass for weight gradients, gradients from the first backward pass of a part to the end of the iteration
/// or, where they are sharded, to their reduce-scatter. A pass that is one task holds all that it makes from
/// its beginning, and uses it to its end. What stages receive from others is not counted.
Memory stage_memory(const RanStages& ran, std::int64_t stage);

}  // namespace planner
