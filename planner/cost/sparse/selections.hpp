// What selecting costs where the user gives no measurement: published, or estimated as the built-in mstopk
// is.

#pragma once

#include "planner/cost/sparse.hpp"

namespace planner::selections {

/// 0.239 s of exact top-k for the 25,557,032 gradients of ResNet-50 in one group.
inline CodeCost exact() { return {.us_per_byte = 239'000.0 / (25'557'032 * 4)}; }
inline constexpr std::string_view kExactSource =
    "CommLib (Shi et al., MLSys 2021), section 2.2: 0.239 s to select from ResNet-50's gradient on a V100";

/// A pass over the gradient as mstopk's are estimated: 900 GB/s, and 5 us to launch.
inline CodeCost passes(int count) { return {.startup_us = 5.0 * count, .us_per_byte = count / 900e3}; }
inline constexpr std::string_view kPassesSource =
    "estimated, not measured: passes over the gradient at 900 GB/s (V100) and 5 us a launch; papers print no "
    "numbers";

/// A kept element is an index and a value where it was a value.
inline constexpr double kIndexAndValue = 2;

}  // namespace planner::selections
