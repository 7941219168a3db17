// Measures the profile of a model on a backend: forward and backward times of every layer, and their
// reliability.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/model.hpp"
#include "core/profile.hpp"
#include "profiler/common/noise.hpp"
#include "profiler/layers/backend.hpp"

namespace profiler {

struct ProfileOptions {
  SessionOptions session;
  int warm_up = 2;       ///< uncounted iterations of either kind
  int repetitions = 30;  ///< counted iterations
  /// Limits the session's memory, if it is to be less than what is free.
  std::optional<double> max_bytes;
};

struct MeasuredProfile {
  core::Profile profile;
  core::Statistics iteration;  ///< as a whole, microseconds
  double layers_us = 0;        ///< sum over the profile's layers
  double bytes = 0;            ///< of memory
  NoiseVerdict noise;
  std::vector<std::string> warnings;
};

/// Called after each of `total` repetitions, including the warm-up.
using ProfileProgress = std::function<void(int done, int total)>;

/// Returns the number of samples that fit, at most `batch_size`; 0 if not even one does.
std::int64_t largest_batch(const Backend& backend, const ModelWork& work, const SessionOptions& options,
                           double max_bytes);

/// Throws EnvironmentError before allocating anything if the model does not fit.
MeasuredProfile measure_profile(const core::Model& model, const Backend& backend,
                                const ProfileOptions& options, const ProfileProgress& progress = {});

}  // namespace profiler
