// Shared code of the fusions that never split a layer: the layers with tensors, as ranges of gradients.

#pragma once

#include <optional>
#include <vector>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// One group per layer with gradients, in forward order.
inline Groups layers_with_tensors(const Workload& workload) {
  Groups layers;
  for (std::uint32_t i = workload.gradient_count(); i-- > 0;) {
    const bool same_layer =
        !layers.empty() && workload.gradients[i].layer == workload.gradients[layers.back().begin].layer;
    if (same_layer)
      layers.back().begin = i;
    else
      layers.push_back({.begin = i, .end = i + 1});
  }
  return layers;
}

/// One group for each block: layers whose names agree up to the first part that is a number, as
/// "model.layers.7" in "model.layers.7.mlp.up_proj", and one for each run of layers outside. In backward
/// order; none if no name has such a part.
std::optional<Groups> blocks_of(const Workload& workload);

}  // namespace planner
