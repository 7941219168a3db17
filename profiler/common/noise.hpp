// Decides whether other load disturbed a measurement: a fixed piece of work timed beside the run, and
// processor time used by others.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/statistics.hpp"

namespace profiler {

/// Returns the time of a fixed task that needs no memory and takes about half a millisecond.
double time_fixed_loop_us();

/// Processor time since the machine started: of all processors, and of this process.
struct ProcessorTimes {
  double busy_s = 0;  ///< all processors, everything but idle and waiting for disks
  double own_s = 0;
  /// Part of busy_s that the kernel used for devices and packets: charged to no process.
  double interrupts_s = 0;
  double all_s = 0;
};
/// Returns nothing if the system does not say.
std::optional<ProcessorTimes> processor_times();

struct NoiseVerdict {
  core::Statistics loop;  ///< microseconds
  /// Fraction of all processors' time used by other processes; none if the system does not say.
  std::optional<double> busy_elsewhere;
  std::vector<std::string> reasons;  ///< none: the machine was quiet

  bool is_noisy() const { return !reasons.empty(); }
};

/// `loops` and `iterations` are in microseconds, in the order of measurement.
NoiseVerdict noise_verdict(const std::vector<double>& loops, const std::vector<double>& iterations,
                           const std::optional<ProcessorTimes>& before,
                           const std::optional<ProcessorTimes>& after);

}  // namespace profiler
