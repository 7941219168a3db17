// The exact grouping where the channel's end is all that the future depends on.

#pragma once

#include <functional>
#include <vector>

#include "planner/costs.hpp"
#include "planner/grouping.hpp"
#include "planner/workload.hpp"

namespace planner {

struct OptimalGroups {
  Groups groups;
  sim::Time end{};  ///< of the last collective, since backward began
};

/// The grouping whose last collective ends soonest when gradient i may travel from ready[i] on (not falling)
/// and groups travel one after another. Ending before `soon_enough` gains nothing. Among equals: fewest
/// groups, then fewest gradients in the first group, then in the second, and so on.
///
/// Exact for any cost of a group as a function of its bytes: end(i) = min over j < i of
/// max(end(j), ready(i)) + cost(j..i), because a later end of the channel never helps what comes after.
/// O(n^2); where more bytes never cost less, groups too long to pay are not looked at, which makes it near
/// linear.
OptimalGroups optimal_groups(const Workload& workload, const std::vector<sim::Time>& ready,
                             sim::Time soon_enough, const CollectiveCost& cost);

}  // namespace planner
