// One group for each block of the model, as FSDP2 is applied to transformers: embedding, blocks, and what
// follows them.

#include "planner/choose/fusion/blocks.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/whole_layers.hpp"

namespace planner {
namespace {

/// The name up to its first dotted part that is a number; empty if there is none.
std::string_view block_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return name.substr(0, end);
    begin = end + 1;
  }
  return {};
}

Grouping merge(const FusionRequest& request) {
  if (std::optional<Groups> blocks = blocks_of(request.workload)) return *std::move(blocks);
  Groups layers = layers_with_tensors(request.workload);
  std::reverse(layers.begin(), layers.end());
  Grouping out(std::move(layers));
  const std::string text = fmt::format(
      "fusion blocks: no layer of '{}' has a name that numbers its block, as layers.0.mlp; each layer is a "
      "group",
      core::printable(request.workload.profile->model));
  out.warnings.push_back({.subject = text, .weight = 0, .text = text});
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
        block_of(workload.profile->layers[workload.gradients[layer.begin].layer].name);
    any = any || !block.empty();
    if (!groups.empty() && block == last)
      groups.back().begin = layer.begin;
    else
      groups.push_back(layer);
    last = block;
  }
  if (!any) return {};
  std::reverse(groups.begin(), groups.end());
  return groups;
}

FusionKind blocks() { return {"blocks", "one group for each block of the model (FSDP2's convention)", read}; }

}  // namespace planner
