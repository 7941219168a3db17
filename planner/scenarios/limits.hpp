// The largest numbers that a scenario or a sweep of it may hold, besides those of all files.

#pragma once

#include "planner/job/conditions.hpp"

namespace scenarios {

constexpr double kMaxSlowdown = 1e6;
constexpr double kMaxSigma = 2;          ///< a task in a hundred then takes over ten times its mean
constexpr double kMaxNormalSigma = 0.3;  ///< one in two thousand would take less than no time

constexpr double max_sigma(planner::Jitter::Distribution distribution) {
  return distribution == planner::Jitter::Distribution::normal ? kMaxNormalSigma : kMaxSigma;
}

}  // namespace scenarios
