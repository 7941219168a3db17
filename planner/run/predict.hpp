// Predicts one schedule on a number of workers: chooses groups, simulates them and computes metrics.

#pragma once

#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

/// A simulated run with its metrics.
struct Run : Simulated {
  std::optional<Proof> proof;  ///< optimality guarantee of the groups, if their fusion provides one
  Metrics metrics;
  std::vector<Warning> warnings;
};

Run run(const Setting& setting, const Schedule& schedule);

/// What run() says of a schedule, without its timeline.
struct Prediction {
  Metrics metrics;
  std::vector<Warning> warnings;
};

/// Predicts without a simulation, with the same metrics and warnings as run(), where all workers are alike
/// and a closed form gives the length of each iteration; none elsewhere.
std::optional<Prediction> predict_at_once(const Setting& setting, const Schedule& schedule);

}  // namespace planner
