// How much the times of layers vary, by the scenario's jitter and the profile's measured spread.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"

namespace planner {

/// What varies in a setting's compute: for each layer and pass the standard deviation of the logarithm, the
/// larger of the scenario's jitter and what the profile's spread amounts to, interquartile range over 1.349
/// times the time (that of a normal distribution), at most 2 as for jitter. A whole micro-batch varies as the
/// sum of its layers.
struct Variation {
  explicit Variation(const Setting& setting);

  std::vector<double> forward;  ///< by layer; 0 where nothing is computed
  std::vector<double> backward;
  double micro_batch_forward = 0;
  double micro_batch_backward = 0;
  /// Layers' passes and micro-batches to draw for one worker in one sample; 0 where nothing varies.
  std::int64_t tasks = 0;
};

}  // namespace planner
