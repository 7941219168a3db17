// Estimates a profile without a measurement: what the kernels of a model's layers take on a given device.

#pragma once

#include <cstdint>
#include <optional>

#include "core/estimate/device.hpp"
#include "core/model/model.hpp"
#include "core/profile.hpp"

namespace core {

struct EstimateOptions {
  std::optional<std::int64_t> batch_size;  ///< default: the model's
  std::optional<Dtype> dtype;  ///< type of the computation and of the gradients; default: the model's
  bool tf32 = false;           ///< float32 products with TF32's precision, if the device has it
  /// Above 0. Scales all times so that forward and backward together take this long.
  std::optional<double> compute_us;
  /// Fraction of compute_us for the forward pass, from 0 to 1. Default: as estimated.
  std::optional<double> forward_share;
};

/// The time of a layer is the sum of its kernels' (kernels.hpp, layer_times.hpp). If they are not scaled to a
/// given time, `compute_range` says how far estimates were from measured times (docs/gpu.md).
/// Layers that are only views of their input are left out. Scaled times add up exactly to the picosecond.
/// Throws InputError if a profile cannot hold the times.
Profile estimate(const core::Model& model, const Device& device, const EstimateOptions& options = {});

}  // namespace core
