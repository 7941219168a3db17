// The iterations of a job, by how its collectives are issued.

#pragma once

#include "planner/graph/graph_writer.hpp"

namespace planner {

/// Each collective is issued for gradients, when they are ready, or once they are all there. With
/// Delivers::own_layers an iteration ends in the middle of a forward pass, see Lowered::marks.
void add_iterations_for_gradients(GraphWriter& writer);

/// Parameters are gathered for the passes of each micro-batch, gradients are scattered after the last.
void add_iterations_for_passes(GraphWriter& writer);

}  // namespace planner
