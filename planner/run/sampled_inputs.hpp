// Profile and network as they may as well have been: times drawn from the spread that was measured.

#pragma once

#include <cstdint>

#include "core/network.hpp"
#include "core/profile.hpp"

namespace planner {

/// Whether any layer carries a spread above 0.
bool varies(const core::Profile& profile);
/// Whether any curve for so many workers does.
bool varies(const core::Network& network, std::int64_t workers);

/// Each layer's forward and backward takes a lognormal factor of mean 1, from a seed and the sample, whose
/// sigma is the interquartile range over 1.349 times the time, at most 2. The parts of a layer vary together.
core::Profile sampled(const core::Profile& profile, std::uint64_t sample);

/// Each measured size of the curves for so many workers likewise, by its interquartile range or its 99th
/// percentile, whichever says more. Beyond its last point a curve goes on as it did, times that point's
/// factor.
core::Network sampled(const core::Network& network, std::int64_t workers, std::uint64_t sample);

}  // namespace planner
