// DeAR's module packing: whole layers from the input side while the sum stays under the cap.

#include <algorithm>

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/knobs.hpp"
#include "planner/choose/fusion/whole_layers.hpp"

namespace planner {
namespace {

constexpr std::int64_t kDefaultCap = 25 << 20;

Groups pack(const Workload& workload, std::int64_t cap) {
  const std::vector<std::int64_t>& bytes = workload.bytes_before;
  Groups groups;  // in forward order
  for (const Group& layer : layers_with_tensors(workload)) {
    if (!groups.empty() && bytes[groups.back().end] - bytes[layer.begin] < cap)
      groups.back().begin = layer.begin;
    else
      groups.push_back(layer);
  }
  std::ranges::reverse(groups);
  return groups;
}

/// The least cap with which the first layer of a group, from the input side, still fits into the previous
/// group.
std::optional<std::int64_t> next_cap(const Workload& workload, const Groups& groups, std::int64_t /*cap*/) {
  const std::vector<Gradient>& gradients = workload.gradients;
  std::optional<std::int64_t> next;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    std::uint32_t layer = groups[i].begin;  // last layer of the neighbouring group away from the input
    do --layer;
    while (layer > 0 && gradients[layer - 1].layer == gradients[layer].layer);
    next = lower_of(next, workload.bytes_before[groups[i].end] - workload.bytes_before[layer] + 1);
  }
  return next;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "cap_bytes"});
  const std::int64_t cap = fusion_integer(field, "cap_bytes", 1, core::kMaxBytes, kDefaultCap);
  return [cap](const FusionRequest& request) { return pack(request.workload, cap); };
}

}  // namespace

FusionKind modules() {
  return {"modules", "whole layers from the input side while < cap_bytes (DeAR)", read};
}

Knob modules_knob() { return {.name = "modules", .groups = pack, .next = next_cap}; }

}  // namespace planner
