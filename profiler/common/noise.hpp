// Whether the machine was left alone while it measured: a fixed piece of work timed beside the run, and what
// processors did for others.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/statistics.hpp"

namespace profiler {

/// Times work that is always the same and needs no memory, about half a millisecond of it.
double time_fixed_loop_us();

/// What every processor has done since the machine started, and what this process has.
struct ProcessorTimes {
  double busy_s = 0;  ///< all processors, everything but idle and waiting for disks
  double own_s = 0;
  double interrupts_s = 0;  ///< of busy_s, what the kernel did for devices and packets: charged to nobody
  double all_s = 0;
};
/// None where the system does not say.
std::optional<ProcessorTimes> processor_times();

struct NoiseVerdict {
  core::Statistics loop;  ///< microseconds
  /// Of all processors' time, the part spent on other processes; none where the system does not say.
  std::optional<double> busy_elsewhere;
  std::vector<std::string> reasons;  ///< none: the machine was quiet

  bool is_noisy() const { return !reasons.empty(); }
};

/// `loops` and `iterations` in microseconds, in the order in which they were measured.
NoiseVerdict noise_verdict(const std::vector<double>& loops, const std::vector<double>& iterations,
                           const std::optional<ProcessorTimes>& before,
                           const std::optional<ProcessorTimes>& after);

}  // namespace profiler
