// Resamples profile and network times from their measured spread.

#pragma once

#include <cstdint>

#include "core/network.hpp"
#include "core/profile.hpp"

namespace planner {

/// Whether any layer has a spread above 0.
bool varies(const core::Profile& profile);
/// Whether any curve for this number of workers has a spread above 0.
bool varies(const core::Network& network, std::int64_t workers);

/// Multiplies the forward and backward of each layer by a lognormal factor of mean 1, from a seed and the
/// sample. Sigma is the interquartile range / (1.349 * time), at most 2. The parts of a layer share one
/// factor.
core::Profile sampled(const core::Profile& profile, std::uint64_t sample);

/// Multiplies each measured size of the curves for this number of workers by a lognormal factor. Sigma comes
/// from the interquartile range or the 99th percentile, whichever gives more. Beyond its last point a curve
/// keeps its slope, times the factor of that point.
core::Network sampled(const core::Network& network, std::int64_t workers, std::uint64_t sample);

}  // namespace planner
