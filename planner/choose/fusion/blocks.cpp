// One group for each block of the model, as FSDP2 is applied to transformers: embedding, blocks, and what
// follows them.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/job/recompute.hpp"

namespace planner {
namespace {

Grouping merge(const FusionRequest& request) {
  if (std::optional<Groups> blocks = blocks_of(request.workload)) return *std::move(blocks);
  Groups layers = layers_with_tensors(request.workload);
  std::ranges::reverse(layers);
  Grouping out(std::move(layers));
  const std::string text = fmt::format(
      "fusion blocks: no layer of '{}' has a name that numbers its block, as layers.0.mlp; each layer is a "
      "group",
      core::printable(request.workload.profile->model));
  out.warnings.push_back({.subject = text, .text = text});
  return out;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return merge;
}

}  // namespace

std::optional<Groups> blocks_of(const Workload& workload) {
  Groups groups;  // in forward order
  std::string_view last;
  bool any = false;
  for (const Group& layer : layers_with_tensors(workload)) {
    const std::string_view block =
        block_name(workload.profile->layers[workload.gradients[layer.begin].layer].name);
    any = any || !block.empty();
    if (!groups.empty() && block == last)
      groups.back().begin = layer.begin;
    else
      groups.push_back(layer);
    last = block;
  }
  if (!any) return {};
  std::ranges::reverse(groups);
  return groups;
}

FusionKind blocks() { return {"blocks", "one group for each block of the model (FSDP2's convention)", read}; }

}  // namespace planner
