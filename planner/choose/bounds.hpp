// Lower bounds that hold for every grouping: minimal sums over groups.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/job/workload.hpp"
#include "sim/time.hpp"

namespace planner {

/// The cost of a group that holds gradients begin to end - 1.
using GroupTime = std::function<sim::Time(std::uint32_t begin, std::uint32_t end)>;

/// Element n is the least sum of `cost` over any partition of gradients n to the last into groups; the last
/// element is 0. `longer_costs_more`: a group that begins earlier or ends later never costs less.
std::vector<sim::Time> min_sums(std::uint32_t gradients, const GroupTime& cost, bool longer_costs_more);

/// The forward time of a layer and all layers after it.
sim::Time forward_from(const Workload& workload, std::uint32_t layer);

}  // namespace planner
