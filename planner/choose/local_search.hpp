// Improves a grouping step by step where no exact method is known: merges, splits, moved cuts, other
// transfers.

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
  std::uint32_t max_evaluations = 2000;  ///< limit of evaluations; a step takes the first better neighbour
};

/// A local optimum, or the best grouping when the evaluations are used up. Ordered by value, then number of
/// groups, then gradients in the first group.
struct Improved {
  Groups groups;
  sim::Time value{};
};
Improved improve(const LocalSearch& search, Groups from);

}  // namespace planner
