// Resamples profile and network times from their measured spread.

#pragma once

#include <cstdint>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/job/conditions.hpp"

namespace planner {

/// A lognormal factor from a seed and the sample: 95 % of the factors lie between `low` and `high`.
double factor_in_range(double low, double high, std::uint64_t seed, std::uint64_t sample);

/// Whether any layer has a spread above 0, or all of them have a range.
bool varies(const core::Profile& profile);
/// Whether any curve for this number of workers has a spread above 0.
bool varies(const core::Network& network, std::int64_t workers);

/// Multiplies the forward and backward of each layer by a lognormal factor of mean 1, from a seed and the
/// sample. Sigma is the interquartile range / (1.349 * time), at most 2. The parts of a layer share one
/// factor. All layers are then multiplied by one factor in the range of the profile.
core::Profile sampled(const core::Profile& profile, std::uint64_t sample);

/// Whether it is uncertain how far the speeds of workers differ: where a spread is given, and on several
/// nodes that a data sheet joins if nothing is said about the workers.
bool varies(const Conditions& conditions, const core::Network& network, std::int64_t workers);

/// A spread of the workers' speeds from 0 to twice the given one, which is kUsualWorkerSpread if none is
/// given, evenly drawn from a seed and the sample. Unchanged if the conditions do not vary.
Conditions sampled(Conditions conditions, const core::Network& network, std::int64_t workers,
                   std::uint64_t sample);

/// Multiplies each measured size of the curves for this number of workers by a lognormal factor. Sigma comes
/// from the interquartile range or the 99th percentile, whichever gives more. Beyond its last point a curve
/// keeps its slope, times the factor of that point.
core::Network sampled(const core::Network& network, std::int64_t workers, std::uint64_t sample);

}  // namespace planner
