// Predicts what one schedule does on one number of workers: chooses its groups, simulates and summarizes
// them.

#pragma once

#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

/// What was simulated, and what it comes to.
struct Run : Simulated {
  std::optional<Proof> proof;  ///< of the groups, where their fusion has one
  Metrics metrics;
  std::vector<Warning> warnings;
};

Run run(const Setting& setting, const Schedule& schedule);

}  // namespace planner
