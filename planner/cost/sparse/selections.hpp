// Default costs of selection if the user gives no measurement: published, or estimated in the same way as the
// built-in mstopk.

#pragma once

#include "planner/cost/sparse.hpp"

namespace planner::selections {

/// Exact top-k: 0.239 s for the 25,557,032 gradients of ResNet-50 in one group.
inline CodeCost exact() { return {.us_per_byte = 239'000.0 / (25'557'032 * 4)}; }
inline constexpr std::string_view kExactSource =
    "CommLib (Shi et al., MLSys 2021), section 2.2: 0.239 s to select from ResNet-50's gradient on a V100";

/// Passes over the gradient, estimated as for mstopk: 900 GB/s and 5 us per launch.
inline CodeCost passes(int count) { return {.startup_us = 5.0 * count, .us_per_byte = count / 900e3}; }
inline constexpr std::string_view kPassesSource =
    "estimated, not measured: passes over the gradient at 900 GB/s (V100) and 5 us a launch; papers print no "
    "numbers";

/// A kept element is sent as an index and a value.
inline constexpr double kIndexAndValue = 2;

}  // namespace planner::selections
