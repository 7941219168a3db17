#include "planner/job/tied.hpp"

#include <algorithm>
#include <set>

#include "planner/job/names.hpp"

namespace planner {
namespace {

bool is_bias(const core::ProfileTensor& tensor) {
  return tensor.shape.empty() ? tensor.name.ends_with("bias") : tensor.shape.size() == 1;
}

}  // namespace

bool Tied::is_last(const Workload& workload) const {
  return module_of(workload, workload.gradient_count() - 1) == owner;
}

std::optional<Tied> tied(const Workload& workload) {
  const std::vector<core::ProfileLayer>& layers = workload.profile->layers;
  const auto has_no_weight = [](const core::ProfileLayer& layer) {
    const auto is_no_weight = [&](const core::ProfileTensor& tensor) {
      return is_bias(tensor) && tensor.name != layer.name;  // part of a layer that is several in the profile
    };
    return layer.frozen_elements == 0 && std::ranges::all_of(layer.tensors, is_no_weight);
  };
  // Where several are without one, weights are frozen rather than tied.
  const auto linear = std::ranges::count_if(layers, [&](const core::ProfileLayer& layer) {
    return layer.kind == "linear" && has_no_weight(layer);
  });
  if (linear != 1) return {};
  std::optional<Tied> out;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    const core::ProfileLayer& layer = layers[workload.gradients[i].layer];
    if (layer.kind == "embedding" &&
        (!out || workload.gradients[i].bytes > workload.gradients[out->weight].bytes))
      out = Tied{.weight = i, .owner = module_of(workload, i)};
  }
  if (!out) return {};
  std::set<std::uint32_t> without_weight;
  for (std::uint32_t l = workload.gradients[out->weight].layer + 1; l < layers.size(); ++l)
    if ((layers[l].kind == "linear" || layers[l].kind == "embedding") && has_no_weight(layers[l])) {
      out->modules.push_back(layers[l].name);
      without_weight.insert(l);
    }
  for (std::uint32_t i = 0; i < out->weight; ++i)
    if (without_weight.contains(workload.gradients[i].layer)) out->carried.push_back(i);
  return out->modules.empty() ? std::nullopt : out;
}

bool shares_ends(const Workload& workload) {
  const std::optional<Tied> shared = tied(workload);
  return shared && shared->is_last(workload);
}

}  // namespace planner
