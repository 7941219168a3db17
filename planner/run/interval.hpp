// Prediction interval of an iteration: simulates the same groups repeatedly with layer and collective times
// sampled from the measured spread.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/run/predict.hpp"

namespace planner {

/// The share of sampled iterations inside the interval.
constexpr double kIntervalShare = 0.95;

/// The range that holds 95 % of the sampled iterations, without the slowest and the fastest 2.5 %.
struct Interval {
  double low_us = 0;
  double high_us = 0;
  std::int64_t samples = 0;
};

/// In each sample the forward and backward of each layer and each measured size of a collective take a
/// lognormal factor of mean 1, from a seed; the factors are the same on all workers, as they express the
/// uncertainty of the inputs. None if neither the profile nor a curve in use has a spread. Throws Unsupported
/// if a sample exceeds what can be simulated.
std::optional<Interval> interval(const Setting& setting, const Schedule& schedule, const Run& run);

}  // namespace planner
