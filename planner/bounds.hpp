// Lower bounds on what a pipeline can reach, whatever the grouping.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/costs.hpp"
#include "planner/workload.hpp"

namespace planner {

/// The least total time of collectives that carry gradients `from` to the last, however they are grouped.
/// Element n is for from = n; the last element is 0.
std::vector<sim::Time> least_channel_time(const Workload& workload, const CollectiveCost& cost);

/// The soonest that collectives over all gradients can have ended, when a group starts no sooner than its
/// gradients are ready.
sim::Time channel_bound(const Workload& workload, const CollectiveCost& cost);

/// The least time from the first all-gather's start to the end of the forward pass that waits for all of
/// them: the last layer with tensors cannot start before the last all-gather has ended.
sim::Time gathered_forward_bound(const Workload& workload, const CollectiveCost& all_gather);

/// The forward time of a layer and all after it.
sim::Time forward_from(const Workload& workload, std::uint32_t layer);

}  // namespace planner
