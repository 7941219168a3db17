// Betters a grouping step by step where nothing is known to find the best one: merges, splits, moved cuts,
// other ways.

#pragma once

#include <cstdint>
#include <functional>

#include "planner/choose/rules.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

struct LocalSearch {
  const GroupRules& rules;
  std::uint32_t transfers = 1;
  std::function<sim::Time(const Groups&)> value;
  std::uint32_t max_looks = 2000;  ///< values asked for; a step takes the first neighbour that is better
};

/// A grouping that no neighbour betters, or the best when the looks are used up: less value, then fewer
/// groups, then fewer gradients in the first.
struct Improved {
  Groups groups;
  sim::Time value{};
};
Improved improve(const LocalSearch& search, Groups from);

}  // namespace planner
