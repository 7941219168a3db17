// How far a predicted iteration can be trusted: the same groups simulated again and again with layers and
// collectives drawn from the spread that was measured.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/run/predict.hpp"

namespace planner {

/// Of the drawn iterations an interval holds so many.
constexpr double kIntervalShare = 0.95;

/// Where 95 % of the drawn iterations lie, the slowest and the fastest 2.5 % left out.
struct Interval {
  double low_us = 0;
  double high_us = 0;
  std::int64_t samples = 0;
};

/// Each layer's forward and backward and each measured size of a collective takes a lognormal factor of mean
/// 1 in each sample, from a seed, the same on all workers: what varies is how well the inputs are known. None
/// where neither the profile nor a curve that is used carries a spread. Throws Unsupported where a sample
/// takes longer than can be simulated.
std::optional<Interval> interval(const Setting& setting, const Schedule& schedule, const Run& run);

}  // namespace planner
