// Shared code of the fusions that never split a layer: the layers with tensors, as ranges of gradients.

#pragma once

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

}  // namespace planner
