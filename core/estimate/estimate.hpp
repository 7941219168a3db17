// A profile without a measurement: what a model's layers cost at best on a device that nobody has at hand.

#pragma once

#include <cstdint>
#include <optional>

#include "core/estimate/device.hpp"
#include "core/model/model.hpp"
#include "core/profile.hpp"

namespace core {

struct EstimateOptions {
  std::optional<std::int64_t> batch_size;  ///< the model's, if not given
  std::optional<Dtype> dtype;              ///< likewise; of the computation and of the gradients
  /// Above 0. All times are scaled so that forward and backward together take this long.
  std::optional<double> compute_us;
  /// From 0 to 1: what part of that is forward. As estimated, if not given.
  std::optional<double> forward_share;
};

/// Each layer takes as long as its arithmetic or its traffic with the memory, whichever is longer, and its
/// kernel launches. Layers that are only another look at their input are left out. What is scaled adds up to
/// the picosecond. Throws InputError if a profile cannot hold the times.
Profile estimate(const core::Model& model, const Device& device, const EstimateOptions& options = {});

}  // namespace core
