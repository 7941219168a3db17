// The factor on a task of each worker relative to the workload: its worker's slowdown times a random factor.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/cost/variation.hpp"
#include "planner/graph/task_label.hpp"

namespace planner {

/// The standard deviation of a task's random factor: the scenario's jitter, or the layer's measured spread.
class TaskSigmas {
 public:
  explicit TaskSigmas(const Setting& setting);

  double of(TaskLabel::Kind kind, std::uint32_t item) const;
  /// The maximum over all tasks.
  double max() const;

 private:
  double all_ = 0;
  std::optional<Variation> measured_;
  std::vector<double> backward_;  // by step
};

/// The random factor, of mean 1, on the time of a simulated task: a function of worker, iteration and task
/// that does not depend on what else is simulated.
double task_factor(const Jitter& jitter, double sigma, std::int64_t worker, const TaskLabel& label);

class TaskFactors {
 public:
  explicit TaskFactors(const Setting& setting);

  /// The factors of a compute task by worker; empty if all are 1. Valid until the next call.
  std::span<const double> of(const TaskLabel& label);

 private:
  Jitter jitter_;
  TaskSigmas sigmas_;
  std::vector<double> slowdowns_;
  bool straggles_;
  std::uint32_t iteration_ = 0;
  std::vector<std::uint64_t> states_;  // by worker: the random generator's prefix state for that iteration
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
};

}  // namespace planner
