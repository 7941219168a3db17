// How long an iteration takes as a function of its grouping: what planners minimise.

#pragma once

#include "planner/choose/pareto.hpp"
#include "planner/choose/rules.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// One iteration of one micro-batch, read and update included, before the input's max; where further
/// micro-batches communicate, too, with them, less what they compute. What is simulated
/// takes as long, but for rounding where rates change (overlap slow-down).
class IterationModel {
 public:
  IterationModel() = default;
  virtual ~IterationModel() = default;
  IterationModel(const IterationModel&) = delete;
  IterationModel& operator=(const IterationModel&) = delete;

  virtual sim::Time value(const Groups& groups) const = 0;
  /// Not above the value of any grouping.
  virtual sim::Time lower_bound() const = 0;
  /// The rules must leave a grouping.
  virtual OptimalGroups optimal(const GroupRules& rules) const = 0;
};

}  // namespace planner
