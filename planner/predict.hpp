// Predicts what one schedule does on one number of workers, by simulating it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/costs.hpp"
#include "planner/lower.hpp"
#include "planner/pipeline.hpp"
#include "planner/schedule.hpp"
#include "planner/workload.hpp"
#include "sim/simulate.hpp"

namespace planner {

/// What a scenario says besides profile, network, workers and schedules.
struct Conditions {
  std::int64_t iterations = 3;
  std::int64_t accumulation_steps = 1;
  double read_us = 0;
  bool read_is_overlapped = true;
  double optimizer_us = 0;
  double lars_us = 0;
  bool parallel_tensor_operator = false;

  struct Straggler {
    std::int64_t worker = 0;
    double slowdown = 1;
  };
  std::vector<Straggler> stragglers = {};
};

/// One number of workers under these conditions. Refers to profile and network, which must outlive it. Throws
/// NoCost when the scenario asks for what the network has no cost for, or for more time than can be
/// simulated.
struct Setting {
  Setting(const traces::Profile& profile, const traces::Network& network, std::int64_t workers,
          const Algorithm& all_reduce, Conditions given);

  Conditions conditions;
  /// What every worker computes: with closed costs collectives start when the slowest worker has issued them,
  /// so the slowest alone decides.
  Workload workload;
  Costs costs;
  Extras extras;
};

/// A schedule's numbers on one number of workers; times are means per iteration.
struct Prediction {
  std::int64_t workers = 1;
  std::int64_t groups = 0;
  double iteration_us = 0;  ///< the input's max included
  double forward_us = 0;
  double backward_us = 0;
  double update_us = 0;
  double read_us = 0;           ///< unoverlapped
  double communication_us = 0;  ///< channel busy
  double exposed_communication_us = 0;
  double bytes_sent_per_worker = 0;
  double throughput_samples_per_s = 0;
  double speedup = 0;
  double scaling_efficiency = 0;
};

/// A prediction with all that led to it.
struct Run {
  Groups groups;
  Program program;
  Lowered lowered;
  sim::Timeline timeline;
  Prediction prediction;
  std::vector<Doubt> doubts;
};

Run run(const Setting& setting, const Schedule& schedule);

/// A time that no grouping under the schedule's pipeline can beat, the input's max included.
double lower_bound_us(const Setting& setting, const Schedule& schedule);

}  // namespace planner
