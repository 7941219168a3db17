// What a simulated run says, as numbers.

#pragma once

#include <cstdint>

#include "planner/cost/setting.hpp"
#include "planner/run/simulated.hpp"
#include "sim/time.hpp"

namespace planner {

/// A schedule's numbers on one number of workers; times are means per iteration.
struct Metrics {
  std::int64_t workers = 1;
  std::int64_t groups = 0;
  double iteration_us = 0;  ///< the input's max included
  double forward_us = 0;    ///< of the slowest worker at full speed, and so for the next four
  double backward_us = 0;
  double encode_us = 0;
  double decode_us = 0;
  double update_us = 0;
  double read_us = 0;           ///< unoverlapped
  double communication_us = 0;  ///< channel busy
  double exposed_communication_us = 0;
  double bytes_sent_per_worker = 0;
  double throughput_samples_per_s = 0;
  double speedup = 0;
  double scaling_efficiency = 0;
};

Metrics summarize(const Setting& setting, const Simulated& simulated);

/// From the end of one iteration to that of the next, mean; the first is left out if there is another.
sim::Time mean_iteration(const Simulated& simulated);

}  // namespace planner
