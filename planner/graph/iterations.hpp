// The iterations of a job, by the rule that issues its collectives.

#pragma once

#include "planner/graph/graph_writer.hpp"

namespace planner {

/// Issues each collective for gradients, when its gradients or all gradients are ready. With
/// Delivers::own_layers an iteration ends in the middle of a forward pass; see Lowered::marks.
void add_iterations_for_gradients(GraphWriter& writer);

/// Gathers parameters for the passes of each micro-batch and scatters gradients after the last.
void add_iterations_for_passes(GraphWriter& writer);

}  // namespace planner
