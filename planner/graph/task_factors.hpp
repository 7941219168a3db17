// The factor on a task of each worker relative to the workload: its worker's slowdown times a random factor.

#pragma once

#include <cstddef>
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

/// The largest value of task_factor() for any task.
double longest_draw(const Setting& setting);

class TaskFactors {
 public:
  /// Covers all workers.
  explicit TaskFactors(const Setting& setting);

  /// Covers the workers from `first` on.
  void select(std::size_t first, std::size_t count);
  /// The factors of a compute task by worker; empty if all are 1. Valid until the next call.
  std::span<const double> of(const TaskLabel& label);

 private:
  Jitter jitter_;
  TaskSigmas sigmas_;
  std::vector<double> slowdowns_;
  bool straggles_;
  std::size_t first_ = 0;
  std::uint32_t iteration_ = 0;
  TaskLabel::Kind kind_{};
  std::vector<std::uint64_t> states_;  // by worker: the random generator's prefix state for that iteration
                                       // and kind; empty if there is none yet
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
};

}  // namespace planner
