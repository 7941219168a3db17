// Upper limits of numbers in a scenario or a sweep, besides those that apply to all files.

#pragma once

#include "planner/job/conditions.hpp"

namespace scenarios {

constexpr double kMaxSlowdown = 1e6;
constexpr double kMaxSigma = 2;          ///< with this sigma, one task in a hundred takes over ten times its
                                         ///< mean
constexpr double kMaxNormalSigma = 0.3;  ///< with this sigma, one in two thousand would take negative time

constexpr double kMaxWorkerSpread = 0.3;

constexpr double max_sigma(planner::Jitter::Distribution distribution) {
  return distribution == planner::Jitter::Distribution::normal ? kMaxNormalSigma : kMaxSigma;
}

}  // namespace scenarios
