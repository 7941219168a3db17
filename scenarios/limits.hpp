// The largest numbers that a scenario or a sweep of it may hold, besides those of all files.

#pragma once

#include "planner/conditions.hpp"

namespace scenarios {

constexpr double kMostSlowdown = 1e6;
constexpr double kMostSigma = 2;          ///< a task in a hundred then takes over ten times its mean
constexpr double kMostNormalSigma = 0.3;  ///< one in two thousand would take less than no time

constexpr double most_sigma(planner::Jitter::Distribution distribution) {
  return distribution == planner::Jitter::Distribution::normal ? kMostNormalSigma : kMostSigma;
}

}  // namespace scenarios
