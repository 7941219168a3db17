// Predicts what one schedule does on one number of workers, by simulating it.

#pragma once

#include <optional>
#include <vector>

#include "planner/fusion.hpp"
#include "planner/lower.hpp"
#include "planner/measure.hpp"
#include "planner/schedule.hpp"
#include "planner/setting.hpp"
#include "sim/simulate.hpp"

namespace planner {

/// A prediction with all that led to it.
struct Run {
  Groups groups;
  std::vector<WayCost> ways;   ///< that the groups name
  std::optional<Proof> proof;  ///< of the groups, where their fusion has one
  Program program;
  Lowered lowered;
  sim::Timeline timeline;
  Prediction prediction;
  std::vector<Doubt> doubts;
};

Run run(const Setting& setting, const Schedule& schedule);

/// These groups under the schedule's pipeline; nothing measured yet. Throws NoCost where they take longer
/// than can be simulated.
Run simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                    std::vector<WayCost> ways);

/// The mean iteration that these groups would give, the input's max included; jitter aside. As quick as the
/// request's model.
double iteration_us(const Setting& setting, const FusionRequest& request, const Groups& groups);

/// A time that no grouping under the schedule's pipeline can beat, the input's max included; jitter aside.
double lower_bound_us(const Setting& setting, const Schedule& schedule);

}  // namespace planner
