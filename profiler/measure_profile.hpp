// A profile of a model on a backend: every layer's times forward and backward, and how far to trust them.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/model.hpp"
#include "profiler/backend.hpp"
#include "profiler/common/noise.hpp"
#include "traces/profile.hpp"

namespace profiler {

struct ProfileWishes {
  SessionWishes session;
  int warm_up = 2;       ///< iterations of either kind that do not count
  int repetitions = 30;  ///< that do
  /// Of the session's memory, where it is to be less than what is free.
  std::optional<double> most_bytes;
};

struct MeasuredProfile {
  traces::Profile profile;
  SampleSummary iteration;  ///< as a whole, microseconds
  double layers_us = 0;     ///< what the profile's layers add up to
  double bytes = 0;         ///< of memory
  NoiseVerdict noise;
  std::vector<std::string> warnings;
};

/// Called after each of `total` repetitions, those of the warm-up included.
using ProfileProgress = std::function<void(int done, int total)>;

/// The samples that fit, at most `batch_size`; 0 if not even one does.
std::int64_t largest_batch(const Backend& backend, const ModelWork& work, const SessionWishes& wishes,
                           double most_bytes);

/// Throws WorldError, before it allocates anything, where the model does not fit.
MeasuredProfile measure_profile(const models::Model& model, const Backend& backend,
                                const ProfileWishes& wishes, const ProfileProgress& progress = {});

}  // namespace profiler
