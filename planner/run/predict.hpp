// Predicts what one schedule does on one number of workers: chooses its groups, simulates and summarizes
// them.

#pragma once

#include <optional>
#include <vector>

#include "planner/run/metrics.hpp"
#include "planner/schedule/schedule.hpp"
#include "planner/cost/setting.hpp"
#include "planner/run/simulated.hpp"

namespace planner {

/// Metrics with all that led to them.
struct Run {
  Simulated simulated;
  std::optional<Proof> proof;  ///< of the groups, where their fusion has one
  Metrics metrics;
  std::vector<Warning> warnings;
};

Run run(const Setting& setting, const Schedule& schedule);

}  // namespace planner
