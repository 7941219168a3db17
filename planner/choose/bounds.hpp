// What no grouping can beat: least sums over groups, whatever they are.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/job/workload.hpp"
#include "sim/time.hpp"

namespace planner {

/// Something that a group of gradients begin to end - 1 costs.
using GroupTime = std::function<sim::Time(std::uint32_t begin, std::uint32_t end)>;

/// The least sum of `cost` over groups that hold gradients n to the last, however they are cut, as element n;
/// the last element is 0. `longer_costs_more`: a group that begins sooner or ends later never costs less.
std::vector<sim::Time> min_sums(std::uint32_t gradients, const GroupTime& cost, bool longer_costs_more);

/// The forward time of a layer and all after it.
sim::Time forward_from(const Workload& workload, std::uint32_t layer);

}  // namespace planner
