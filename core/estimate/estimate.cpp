#include "core/estimate/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

using core::Layer;
using core::LayerKind;
using core::Model;

// Typical fractions of data sheet figures that kernels reach. With these, the five float32 iteration times
// that follow from the figures of DeAR and MG-WFBP are reproduced within 20 %.
constexpr double kShareOfPeak = 0.7;
constexpr double kShareOfTensorCorePeak = 0.5;
constexpr double kShareOfBandwidth = 0.8;
constexpr double kLaunchUs = 5;
/// How much longer a product takes on tensor cores whose rows are no multiple of 8 elements of two bytes, and
/// no multiple of 2: cuBLASLt reached 22 and 12 % of an H200's peak with vocabularies of 30,522 and 50,257.
constexpr std::int64_t kAligned = 8;
constexpr double kUnalignedTakes = kShareOfTensorCorePeak / 0.22;
constexpr double kOddTakes = kShareOfTensorCorePeak / 0.12;
/// Sorting positions by expert, three grouped products, the gated product, and the weighted sum.
constexpr double kExpertLaunches = 6;

/// The work of one pass over a layer for a whole batch.
struct Work {
  double flops = 0;
  double elements = 0;  ///< read from and written to memory
  double launches = 1;
};

struct Setting {
  const Device& device;
  std::int64_t batch_size;
  Dtype dtype;
};

double share_of_peak(Dtype dtype) { return dtype == Dtype::float32 ? kShareOfPeak : kShareOfTensorCorePeak; }

double time_us(const Work& work, const Setting& setting) {
  const double flops_per_us = peak_tflops(setting.device, setting.dtype) * 1e6 * share_of_peak(setting.dtype);
  const double bytes_per_us = setting.device.memory_gbytes_per_s * 1e3 * kShareOfBandwidth;
  const double bytes = work.elements * static_cast<double>(bytes_per_element(setting.dtype));
  return std::max(work.flops / flops_per_us, bytes / bytes_per_us) + work.launches * kLaunchUs;
}

/// The element counts that an estimate needs.
struct Sizes {
  double inputs = 0;
  double output = 0;
  double kept = 0;     ///< for the backward pass, including the output
  double weights = 0;  ///< including shared ones
  double launches = 1;
  double products_take = 1;  ///< times as long as with aligned rows
};

/// By how much longer the products of a linear layer take in two bytes than with aligned rows.
double products_take(const Model& model, const Layer& layer) {
  if (layer.kind != LayerKind::linear) return 1;
  const std::int64_t in = model.layers[layer.inputs.front()].output.back();
  const std::int64_t out = layer.output.back();
  if (in % kAligned == 0 && out % kAligned == 0) return 1;
  return in % 2 == 0 && out % 2 == 0 ? kUnalignedTakes : kOddTakes;
}

Sizes sizes(const Model& model, const Layer& layer, const Setting& setting) {
  const auto batch = static_cast<double>(setting.batch_size);
  Sizes sizes;
  for (const std::size_t input : layer.inputs)
    sizes.inputs += batch * static_cast<double>(core::element_count(model.layers[input].output));
  sizes.output = batch * static_cast<double>(core::element_count(layer.output));
  sizes.kept = std::max(sizes.output, batch * static_cast<double>(layer.activation_elements));
  for (const core::Tensor& tensor : layer.tensors) sizes.weights += static_cast<double>(tensor.elements);
  if (const auto& shared = layer.shared_weight)
    sizes.weights += static_cast<double>(model.layers[shared->layer].tensors[shared->tensor].elements);

  if (setting.dtype != Dtype::float32) sizes.products_take = products_take(model, layer);
  if (layer.kind == LayerKind::experts) sizes.launches = kExpertLaunches;
  if (const auto* lstm = std::get_if<core::Lstm>(&layer.parameters)) {
    // Each step needs a launch and reads the recurrent half of the weights again.
    const auto steps = static_cast<double>(layer.output.front());
    sizes.launches = steps * static_cast<double>(lstm->layers) * (lstm->bidirectional ? 2 : 1);
    sizes.weights *= 1 + (steps - 1) / 2;
  }
  return sizes;
}

double flops(const Layer& layer, const Sizes& sizes, const Setting& setting) {
  return sizes.products_take * layer.forward_flops * static_cast<double>(setting.batch_size);
}

Work forward(const Layer& layer, const Sizes& sizes, const Setting& setting) {
  Work work = {.flops = flops(layer, sizes, setting),
               .elements = sizes.inputs + 2 * sizes.kept - sizes.output + sizes.weights,
               .launches = sizes.launches};
  const bool is_lookup = layer.kind == LayerKind::embedding || layer.kind == LayerKind::position_embedding;
  if (is_lookup) work.elements = 2 * sizes.output;  // not the whole table
  return work;
}

/// A layer with weights computes two gradients instead of one: those of the weights and of the input.
Work backward(const Layer& layer, const Sizes& sizes, const Setting& setting) {
  const double gradients = sizes.weights > 0 ? 2 : 1;
  return {.flops = gradients * flops(layer, sizes, setting),
          .elements = sizes.output + sizes.kept + gradients * sizes.inputs + gradients * sizes.weights,
          .launches = gradients * sizes.launches};
}

ProfileLayer estimate_layer(const Model& model, const Layer& layer, const Setting& setting) {
  const Sizes moved = sizes(model, layer, setting);
  ProfileLayer out = {.name = layer.name,
                      .kind = std::string(core::name(layer.kind)),
                      .forward_us = time_us(forward(layer, moved, setting), setting),
                      .backward_us = time_us(backward(layer, moved, setting), setting)};
  for (const core::Tensor& tensor : layer.tensors)
    out.tensors.push_back({.name = tensor.name, .elements = tensor.elements, .shape = tensor.shape});
  const double bytes = static_cast<double>(layer.activation_elements) *
                       static_cast<double>(setting.batch_size) *
                       static_cast<double>(bytes_per_element(setting.dtype));
  if (out.forward_us > kMaxTimeUs || out.backward_us > kMaxTimeUs || bytes > static_cast<double>(kMaxBytes))
    throw core::InputError(fmt::format(
        "{}: expected layers that a profile can hold, got {:.3g} us forward, {:.3g} us backward and "
        "{:.3g} bytes of activations in '{}'",
        model.name, out.forward_us, out.backward_us, bytes, layer.name));
  out.activation_bytes = static_cast<std::int64_t>(bytes);
  return out;
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

std::string scaling(const EstimateOptions& options) {
  std::string out = options.compute_us ? fmt::format("scaled to {:.12g} ms for forward and backward",
                                                     *options.compute_us / 1e3)
                                       : "not scaled to any measurement";
  if (options.forward_share) out += fmt::format(", {:g} % of it forward", 100 * *options.forward_share);
  return out;
}

std::string source(const Setting& setting, const EstimateOptions& options) {
  return fmt::format(
      "roofline: {:g} % of {:g} TFLOP/s ({}), {:g} % of {:g} GB/s, {:g} us a kernel launch, batch {}; {}",
      100 * share_of_peak(setting.dtype), peak_tflops(setting.device, setting.dtype), name(setting.dtype),
      100 * kShareOfBandwidth, setting.device.memory_gbytes_per_s, kLaunchUs, setting.batch_size,
      scaling(options));
}

}  // namespace

Profile estimate(const Model& model, const Device& device, const EstimateOptions& options) {
  const Setting setting = {.device = device,
                           .batch_size = options.batch_size.value_or(model.batch_size),
                           .dtype = options.dtype ? *options.dtype : dtype(model.dtype).value()};
  Profile profile = {.model = model.name,
                     .batch_size = setting.batch_size,
                     .dtype = setting.dtype,
                     .device = std::string(device.full_name),
                     .origin = {.kind = OriginKind::estimated, .source = source(setting, options)},
                     .layers = {}};
  for (const Layer& layer : model.layers)
    if (!layer.is_view) profile.layers.push_back(estimate_layer(model, layer, setting));
  if (options.compute_us || options.forward_share) scale(profile, options);
  return profile;
}

}  // namespace core
