// A profile of a model on a backend: every layer's times forward and backward, and how far to trust them.

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
  int warm_up = 2;       ///< iterations of either kind that do not count
  int repetitions = 30;  ///< that do
  /// Of the session's memory, where it is to be less than what is free.
  std::optional<double> max_bytes;
};

struct MeasuredProfile {
  core::Profile profile;
  core::Statistics iteration;  ///< as a whole, microseconds
  double layers_us = 0;     ///< what the profile's layers add up to
  double bytes = 0;         ///< of memory
  NoiseVerdict noise;
  std::vector<std::string> warnings;
};

/// Called after each of `total` repetitions, those of the warm-up included.
using ProfileProgress = std::function<void(int done, int total)>;

/// The samples that fit, at most `batch_size`; 0 if not even one does.
std::int64_t largest_batch(const Backend& backend, const ModelWork& work, const SessionOptions& options,
                           double max_bytes);

/// Throws EnvironmentError, before it allocates anything, where the model does not fit.
MeasuredProfile measure_profile(const core::Model& model, const Backend& backend,
                                const ProfileOptions& options, const ProfileProgress& progress = {});

}  // namespace profiler
