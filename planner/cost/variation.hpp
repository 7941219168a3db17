// The variation of layer times, from the scenario's jitter and the profile's measured spread.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"

namespace planner {

/// The random part of a setting's compute: for each layer and pass the standard deviation of the logarithm.
/// It is the larger of the scenario's jitter and the profile's spread, interquartile range / (1.349 * time)
/// as for a normal distribution, limited to 2 as jitter is. A whole micro-batch varies as the sum of its
/// layers.
struct Variation {
  explicit Variation(const Setting& setting);

  std::vector<double> forward;  ///< by layer; 0 for layers without compute
  std::vector<double> backward;
  double micro_batch_forward = 0;
  double micro_batch_backward = 0;
  /// Random layer passes and micro-batches per worker and sample; 0 if nothing varies.
  std::int64_t tasks = 0;
};

}  // namespace planner
