// DeAR's module packing: whole layers from the input side while the sum stays under the cap.

#include <algorithm>

#include "planner/fusion.hpp"
#include "planner/fusion/whole_layers.hpp"
#include "traces/limits.hpp"

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
  std::reverse(groups.begin(), groups.end());
  return groups;
}

Fuse read(const models::Field& field) {
  allow_fusion_keys(field, {"kind", "cap_bytes"});
  const std::int64_t cap = fusion_integer(field, "cap_bytes", 1, traces::kMostBytes, kDefaultCap);
  return [cap](const FusionRequest& request) { return pack(request.workload, cap); };
}

}  // namespace

FusionKind modules() {
  return {"modules", "whole layers from the input side while < cap_bytes (DeAR)", read};
}

}  // namespace planner
