#include "planner/job/workload.hpp"

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
    workload.gradients.push_back({.layer = layer_index,
                                  .tensor = tensor,
                                  .bytes = layer.tensors[tensor].elements * element_bytes,
                                  .ready = workload.backward_total,
                                  .backward_step = static_cast<std::uint32_t>(workload.backward.size() - 1)});
    workload.bytes_before.push_back(workload.bytes() + workload.gradients.back().bytes);
  }
}

}  // namespace

Workload make_workload(const core::Profile& profile, double slowdown) {
  Workload workload;
  workload.profile = &profile;
  std::size_t tensors = 0;
  for (const ProfileLayer& layer : profile.layers) tensors += layer.tensors.size();
  workload.forward.reserve(profile.layers.size());
  workload.gradients.reserve(tensors);
  workload.bytes_before.reserve(tensors + 1);
  for (const ProfileLayer& layer : profile.layers) {
    workload.forward.push_back(sim::from_us(layer.forward_us * slowdown));
    workload.forward_total += workload.forward.back();
  }
  for (auto layer = static_cast<std::uint32_t>(profile.layers.size()); layer-- > 0;)
    add_backward(workload, layer, slowdown);
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
