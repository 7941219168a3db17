// Resamples costs that were derived from curves of something else, within the range that was stated for them.

#pragma once

#include <cstdint>

#include "core/network.hpp"
#include "planner/cost/collectives.hpp"

namespace planner {

/// Whether any collective on this number of workers has a derived cost with a range.
bool has_derived(const core::Network& network, std::int64_t workers, const Algorithm& algorithm);

/// Adds curves to `sampled` in place of the derived costs of `network`, each multiplied by one lognormal
/// factor, the same for all collectives, from a seed and the sample: 95 % of the factors lie in the range of
/// the cost.
void add_derived(core::Network& sampled, const core::Network& network, std::int64_t workers,
                 const Algorithm& algorithm, std::uint64_t sample);

}  // namespace planner
