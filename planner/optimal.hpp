// What the exact planner minimises for each kind of pipeline.

#pragma once

#include <functional>
#include <vector>

#include "planner/costs.hpp"
#include "planner/pareto.hpp"
#include "planner/pipeline.hpp"
#include "planner/workload.hpp"

namespace planner {

/// One collective a group, issued when its gradients are ready: the soonest end of the last collective, since
/// backward began. Ending before `soon_enough` gains nothing. `ready` (not falling) is when each gradient may
/// travel.
///
/// Exact for any cost of a group as a function of its bytes: a later end of the channel never helps what
/// comes after.
OptimalGroups optimal_for_channel(const Workload& workload, const std::vector<sim::Time>& ready,
                                  sim::Time soon_enough, const CollectiveCost& cost);

/// Reduce-scatters under backward, all-gathers under the next forward pass (dear, overlapped zero): from the
/// start of backward to the end of that forward pass. Two times decide the rest: when the reduce-scatters
/// end, and how long it takes from the first all-gather of what has been grouped to the end of forward.
OptimalGroups optimal_for_two_phases(const Workload& workload, const Costs& costs, const Extras& extras);

/// Reduce-scatters under backward, all-gathers before the next forward pass (zero without overlap): the end
/// of the reduce-scatters and the sum of the all-gathers.
OptimalGroups optimal_for_separate_phases(const Workload& workload, const Costs& costs);

}  // namespace planner
