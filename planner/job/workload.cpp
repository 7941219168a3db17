#include "planner/job/workload.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace planner {
namespace {

using core::ProfileLayer;

bool has_parts(const ProfileLayer& layer) {
  return !layer.tensors.empty() && layer.tensors.front().backward_us.has_value();
}

/// Adds the steps of one layer and its gradients, last tensor first.
void add_backward(Workload& workload, std::uint32_t layer_index, double slowdown) {
  const ProfileLayer& layer = workload.profile->layers[layer_index];
  const std::int64_t element_bytes = core::bytes_per_element(workload.profile->dtype);
  const auto run = [&](std::uint32_t tensor, double us) {
    workload.backward.push_back(
        {.layer = layer_index, .tensor = tensor, .duration = sim::from_us(us * slowdown)});
    workload.backward_total += workload.backward.back().duration;
  };
  const bool in_parts = has_parts(layer);
  if (!in_parts) run(BackwardStep::kWholeLayer, layer.backward_us);
  for (auto tensor = static_cast<std::uint32_t>(layer.tensors.size()); tensor-- > 0;) {
    if (in_parts) run(tensor, *layer.tensors[tensor].backward_us);
    // the first tensor, which comes last, travels with what is not trained
    const bool is_last = tensor == 0;
    workload.gradients.push_back({.layer = layer_index,
                                  .tensor = tensor,
                                  .bytes = layer.tensors[tensor].elements * element_bytes,
                                  .ready = workload.backward_total,
                                  .backward_step = static_cast<std::uint32_t>(workload.backward.size() - 1),
                                  .frozen_bytes = is_last ? layer.frozen_elements * element_bytes : 0,
                                  .first_layer = layer_index,
                                  .last_layer = layer_index});
    workload.bytes_before.push_back(workload.bytes() + workload.gradients.back().bytes);
  }
}

/// The number of parts of their paths that both modules have in common.
std::size_t shared_parts(const std::string& a, const std::string& b) {
  const auto differs = std::ranges::mismatch(a, b);
  const bool ends = (differs.in1 == a.end() || *differs.in1 == '.') &&
                    (differs.in2 == b.end() || *differs.in2 == '.') && differs.in1 != a.begin();
  return static_cast<std::size_t>(std::count(a.begin(), differs.in1, '.')) + (ends ? 1 : 0);
}

const std::string& path_of(const ProfileLayer& layer) { return layer.module ? *layer.module : layer.name; }

/// Gives each layer that has parameters but trains none to one of its neighbours that have tensors: to that
/// with which it shares more of its path, and so the block, or else to the one after it in forward order. So
/// each gradient travels with a run of such layers.
void add_frozen(Workload& workload) {
  const std::vector<ProfileLayer>& layers = workload.profile->layers;
  const std::int64_t element_bytes = core::bytes_per_element(workload.profile->dtype);
  // in forward order: the first layer's gradients, as far as layers were come to
  std::size_t next = workload.gradients.size();
  bool is_behind = true;  // whether all since the gradient before went to it
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].tensors.empty()) {
      next -= layers[i].tensors.size();
      is_behind = true;
      continue;
    }
    if (layers[i].frozen_elements == 0) continue;
    Gradient* before = next < workload.gradients.size() ? &workload.gradients[next] : nullptr;
    Gradient* after = next > 0 ? &workload.gradients[next - 1] : nullptr;
    const auto shared = [&](const Gradient& with) {
      return shared_parts(path_of(layers[i]), path_of(layers[with.layer]));
    };
    is_behind = is_behind && before != nullptr && (after == nullptr || shared(*before) > shared(*after));
    Gradient* taken = is_behind ? before : after;
    if (taken == nullptr) return;
    taken->frozen_bytes += layers[i].frozen_elements * element_bytes;
    taken->first_layer = std::min(taken->first_layer, i);
    taken->last_layer = std::max(taken->last_layer, i);
  }
}

}  // namespace

void Workload::add(const Gradient& gradient) {
  gradients.push_back(gradient);
  bytes_before.push_back(bytes() + gradient.bytes);
  frozen_before.push_back(frozen_before.back() + gradient.frozen_bytes);
}

Workload make_workload(const core::Profile& profile, double slowdown) {
  Workload workload;
  workload.profile = &profile;
  std::size_t tensors = 0;
  for (const ProfileLayer& layer : profile.layers) tensors += layer.tensors.size();
  workload.forward.reserve(profile.layers.size());
  workload.gradients.reserve(tensors);
  workload.bytes_before.reserve(tensors + 1);
  workload.frozen_before.reserve(tensors + 1);
  for (const ProfileLayer& layer : profile.layers) {
    workload.forward.push_back(sim::from_us(layer.forward_us * slowdown));
    workload.forward_total += workload.forward.back();
  }
  for (auto layer = static_cast<std::uint32_t>(profile.layers.size()); layer-- > 0;)
    add_backward(workload, layer, slowdown);
  add_frozen(workload);
  for (const Gradient& gradient : workload.gradients)
    workload.frozen_before.push_back(workload.frozen_before.back() + gradient.frozen_bytes);
  return workload;
}

std::size_t sharded_dimension(const core::ProfileTensor& tensor, bool of_experts, std::int64_t workers) {
  const bool is_second =
      of_experts && tensor.shape.size() > 1 && tensor.shape[0] < workers && tensor.shape[1] % workers == 0;
  return is_second ? 1 : 0;
}

std::vector<std::int64_t> padding_before(const Workload& workload, std::int64_t parts) {
  constexpr double kMaxBytes = 0x1p53;
  const std::int64_t element_bytes = core::bytes_per_element(workload.profile->dtype);
  std::vector<std::int64_t> out = {0};
  out.reserve(workload.gradients.size() + 1);
  for (const Gradient& at : workload.gradients) {
    const core::ProfileTensor& tensor = workload.profile->layers[at.layer].tensors[at.tensor];
    const bool is_even = tensor.shape.empty() || sharded_dimension(tensor, workload.of_experts, parts) > 0;
    const std::int64_t rows = is_even ? parts : tensor.shape.front();
    const std::int64_t missing = (parts - rows % parts) % parts;
    const std::int64_t row_bytes = tensor.elements / rows * element_bytes;
    const double all =
        static_cast<double>(out.back()) + static_cast<double>(missing) * static_cast<double>(row_bytes);
    if (all > kMaxBytes)
      throw core::Unsupported(fmt::format("at most {:.4g} bytes of padding for {} workers", kMaxBytes, parts),
                              fmt::format("{:.4g}", all), "/profile");
    out.push_back(out.back() + missing * row_bytes);
  }
  return out;
}

}  // namespace planner
