// DeAR-NL: a fixed number of nearby layers, from the input side; the remainder comes last.

#include <algorithm>

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/knobs.hpp"
#include "planner/choose/fusion/whole_layers.hpp"

namespace planner {
namespace {

Groups merge(const Workload& workload, std::int64_t count) {
  Groups groups;  // in forward order
  const Groups layers = layers_with_tensors(workload);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i % static_cast<std::size_t>(count) == 0)
      groups.push_back(layers[i]);
    else
      groups.back().begin = layers[i].begin;
  }
  std::ranges::reverse(groups);
  return groups;
}

std::optional<std::int64_t> next_count(const Workload& /*workload*/, const Groups& groups,
                                       std::int64_t count) {
  return groups.size() > 1 ? std::optional(count + 1) : std::nullopt;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "count"});
  const std::int64_t count = fusion_integer(field, "count", 1, core::kMaxElements, 4);
  return [count](const FusionRequest& request) { return merge(request.workload, count); };
}

}  // namespace

FusionKind nearby_layers() { return {"layers", "count nearby layers together (DeAR-NL)", read}; }

Knob nearby_layers_knob() {
  return {.name = "layers", .is_count = true, .groups = merge, .next = next_count};
}

}  // namespace planner
