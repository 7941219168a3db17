// Resamples costs that were derived from curves of something else, within the range that was stated for them.

#pragma once

#include <cstdint>
#include <vector>

#include "core/network.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/cost/derived.hpp"

namespace planner {

/// A derived cost with a range.
struct DerivedRange {
  core::CollectiveKind kind = core::CollectiveKind::all_reduce;
  DerivedCost cost;
};

/// Those of the collectives on this number of workers. Curves without points are left out.
std::vector<DerivedRange> derived_ranges(const core::Network& network, std::int64_t workers,
                                         const Algorithm& algorithm);

/// Adds curves to `sampled` in place of these costs, each multiplied by a lognormal factor from a seed and
/// the sample, the same draw for all collectives and sizes: 95 % of the factors lie in the range of the cost.
/// The link between measured nodes, which groups of other sizes use, takes that of several nodes.
void add_sampled(core::Network& sampled, const std::vector<DerivedRange>& ranges, std::int64_t workers,
                 const Algorithm& algorithm, std::uint64_t sample);

}  // namespace planner
