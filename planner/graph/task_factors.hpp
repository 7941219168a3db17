// By how much a task of each worker takes longer than the workload says: its worker's slowness times its own
// draw.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/cost/variation.hpp"
#include "planner/graph/task_label.hpp"

namespace planner {

/// The standard deviation that a task's draw has: the scenario's, or the layer's measured one.
class TaskSigmas {
 public:
  explicit TaskSigmas(const Setting& setting);

  double of(TaskLabel::Kind kind, std::uint32_t item) const;
  /// No task's is larger.
  double max() const;

 private:
  double all_ = 0;
  std::optional<Variation> measured_;
  std::vector<double> backward_;  // by step
};

/// The factor, of mean 1, that a simulated task takes longer on a worker: one draw for each worker, iteration
/// and task, the same whatever else is simulated.
double task_factor(const Jitter& jitter, double sigma, std::int64_t worker, const TaskLabel& label);

class TaskFactors {
 public:
  explicit TaskFactors(const Setting& setting);

  /// Of a compute task on every worker; empty where all take what the workload says. Until the next call.
  std::span<const double> of(const TaskLabel& label);

 private:
  Jitter jitter_;
  TaskSigmas sigmas_;
  std::vector<double> slowdowns_;
  bool straggles_;
  std::uint32_t iteration_ = 0;
  std::vector<std::uint64_t> states_;  // by worker, of that iteration: what its bits begin with
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
};

}  // namespace planner
