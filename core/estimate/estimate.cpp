#include "core/estimate/estimate.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/estimate/kernels.hpp"
#include "core/estimate/layer_times.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

ProfileLayer profile_layer(const Model& model, const Layer& layer, const LayerTimes& times,
                           const Profile& profile) {
  ProfileLayer out = {.name = layer.name,
                      .kind = std::string(core::name(layer.kind)),
                      .forward_us = times.forward_us,
                      .backward_us = times.backward_us};
  for (const core::Tensor& tensor : layer.tensors)
    out.tensors.push_back({.name = tensor.name, .elements = tensor.elements, .shape = tensor.shape});
  const double bytes = static_cast<double>(layer.activation_elements) *
                       static_cast<double>(profile.batch_size) *
                       static_cast<double>(bytes_per_element(profile.dtype));
  if (out.forward_us > kMaxTimeUs || out.backward_us > kMaxTimeUs || bytes > static_cast<double>(kMaxBytes))
    throw core::InputError(fmt::format(
        "{}: expected layers that a profile can hold, got {:.3g} us forward, {:.3g} us backward and "
        "{:.3g} bytes of activations in '{}'",
        model.name, out.forward_us, out.backward_us, bytes, layer.name));
  out.activation_bytes = static_cast<std::int64_t>(bytes);
  return out;
}

/// What estimates of batches of 8 and more were, as factors of the measured time; docs/gpu.md has the cases.
struct SeenFactors {
  double low;
  double high;
};
constexpr SeenFactors kSeen = {.low = 0.65, .high = 1.25};
constexpr SeenFactors kSeenOfHalves = {.low = 0.5, .high = 1.6};

SeenFactors seen_factors(const Kernels& kernels) {
  return kernels.element_bytes() < 4 ? kSeenOfHalves : kSeen;
}

constexpr double kPsPerUs = 1e6;

/// Divides a total simulated time in proportion to weights: parts are whole picoseconds, and after the last
/// weight their sum is the total.
class Shares {
 public:
  Shares(double total_ps, double all_weights) : total_ps_(total_ps), all_weights_(all_weights) {}

  double next_us(double weight) {
    weights_ += weight;
    const double until_ps = std::round(total_ps_ * (weights_ / all_weights_));
    return (until_ps - std::exchange(handed_out_ps_, until_ps)) / kPsPerUs;
  }

 private:
  double total_ps_;
  double all_weights_;
  double weights_ = 0;
  double handed_out_ps_ = 0;
};

void scale(Profile& profile, const EstimateOptions& options) {
  const double estimated_us = forward_us(profile) + backward_us(profile);
  const double compute_ps = std::round(options.compute_us.value_or(estimated_us) * kPsPerUs);
  const double share = options.forward_share.value_or(forward_us(profile) / estimated_us);
  const double forward_ps = std::round(compute_ps * share);
  Shares forward(forward_ps, forward_us(profile));
  Shares backward(compute_ps - forward_ps, backward_us(profile));
  for (ProfileLayer& layer : profile.layers) {
    layer.forward_us = forward.next_us(layer.forward_us);
    layer.backward_us = backward.next_us(layer.backward_us);
  }
}

/// To three decimals.
double rounded(double factor) { return std::round(factor * 1e3) / 1e3; }

std::string scaling(const Kernels& kernels, const EstimateOptions& options) {
  std::string out;
  if (options.compute_us)
    out = fmt::format("scaled to {:.12g} ms for forward and backward", *options.compute_us / 1e3);
  else
    out = fmt::format(
        "not scaled to any measurement (estimates of batches of 8 and more were {:g} to {:g} times the "
        "measured time elsewhere)",
        seen_factors(kernels).low, seen_factors(kernels).high);
  if (options.forward_share) out += fmt::format(", {:g} % of it forward", 100 * *options.forward_share);
  return out;
}

std::string source(const Kernels& kernels, const EstimateOptions& options, std::int64_t batch_size) {
  const bool tf32 = kernels.tensor_cores() && kernels.dtype() == Dtype::float32;
  return fmt::format(
      "roofline of each kernel: {:g} % of {:g} TFLOP/s ({}{}), {:g} % of {:g} GB/s or {:g} % in reductions, "
      "{:g} us a launch, batch {}; {}",
      100 * kernels.share_of_peak(), kernels.peak(), tf32 ? "TF32" : name(kernels.dtype()),
      kernels.tensor_cores() ? " on tensor cores" : "", 100 * kShareOfBandwidth,
      kernels.device().memory_gbytes_per_s, 100 * kShareOfReducing, kLaunchUs, batch_size,
      scaling(kernels, options));
}

}  // namespace

Profile estimate(const Model& model, const Device& device, const EstimateOptions& options) {
  const Kernels kernels(device, options.dtype ? *options.dtype : dtype(model.dtype).value(), options.tf32);
  Profile profile = {.model = model.name,
                     .batch_size = options.batch_size.value_or(model.batch_size),
                     .dtype = kernels.dtype(),
                     .device = std::string(device.full_name),
                     .origin = {.kind = OriginKind::estimated},
                     .layers = {}};
  profile.origin.source = source(kernels, options, profile.batch_size);
  const std::vector<LayerTimes> times = layer_times(model, kernels, profile.batch_size);
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (!model.layers[i].is_view)
      profile.layers.push_back(profile_layer(model, model.layers[i], times[i], profile));
  if (options.compute_us || options.forward_share) scale(profile, options);
  if (!options.compute_us) {
    const auto [low, high] = seen_factors(kernels);
    profile.compute_range = {.low = rounded(1 / high), .high = rounded(1 / low)};
  }
  return profile;
}

}  // namespace core
