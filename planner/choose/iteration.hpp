// The iteration time as a function of the grouping: the objective of planners.

#pragma once

#include "planner/choose/pareto.hpp"
#include "planner/choose/rules.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// The time of one iteration with one micro-batch, including reading and update, before the input's maximum
/// is applied. If further micro-batches communicate too, they are included, without their compute. Simulation
/// gives the same time, up to rounding if rates change (overlap slow-down).
class IterationModel {
 public:
  IterationModel() = default;
  virtual ~IterationModel() = default;
  IterationModel(const IterationModel&) = delete;
  IterationModel& operator=(const IterationModel&) = delete;

  virtual sim::Time value(const Groups& groups) const = 0;
  /// Whether value() is found without simulation.
  virtual bool is_closed_form() const { return false; }
  /// A lower bound of the value over all groupings.
  virtual sim::Time lower_bound() const = 0;
  /// The optimal groups under the rules, which must allow at least one grouping.
  virtual OptimalGroups optimal(const GroupRules& rules) const = 0;
};

}  // namespace planner
