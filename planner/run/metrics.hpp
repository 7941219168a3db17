// Metrics of a simulated run.

#pragma once

#include <cstdint>

#include "planner/cost/setting.hpp"
#include "planner/run/simulated.hpp"
#include "sim/time.hpp"

namespace planner {

/// The metrics of a schedule on a number of workers; times are means per iteration.
struct Metrics {
  std::int64_t workers = 1;
  std::int64_t groups = 0;
  double iteration_us = 0;  ///< includes the input's maximum
  double forward_us = 0;    ///< of the slowest worker at full speed; the next four likewise
  double backward_us = 0;
  double encode_us = 0;
  double decode_us = 0;
  double update_us = 0;
  double read_us = 0;           ///< time not overlapped
  double communication_us = 0;  ///< time in which the channel is busy
  double exposed_communication_us = 0;
  double bytes_sent_per_worker = 0;
  double throughput_samples_per_s = 0;
  double speedup = 0;
  double scaling_efficiency = 0;
};

Metrics summarize(const Setting& setting, const Simulated& simulated);

/// The metrics of a run whose iterations are all alike and of this length, as the simulation gives them.
/// Requires workers that do not differ, collectives that run once in an iteration, and transfers that cost
/// the same in each.
Metrics summarize(const Setting& setting, const CommunicationPlan& plan, sim::Time iteration);

/// The mean time from the end of one iteration to the end of the next; the first is excluded if there is
/// another.
sim::Time mean_iteration(const Simulated& simulated);

}  // namespace planner
