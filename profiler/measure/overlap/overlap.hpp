// How much computing and communicating slow each other down when both run: a model's iterations and a
// backend's collectives, alone and beside each other, on all ranks at once.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "profiler/measure/backend.hpp"

namespace profiler {

struct OverlapOptions {
  std::int64_t bytes = std::int64_t{4} << 20;  ///< of each all-reduce, a multiple of 4
  int warm_up = 2;
  int repetitions = 10;  ///< of either alone; iterations beside that count at least
};

/// Of one rank; microseconds.
struct OverlapSamples {
  std::vector<double> compute_alone;
  std::vector<double> compute_beside;  ///< while communication ran from begin to end
  std::vector<double> communication_alone;
  std::vector<double> communication_beside;

  /// Of medians; below 0 where noise is greater than the slow-down.
  double compute_slowdown() const;
  double communication_slowdown() const;
};

/// All ranks call it, and each gets every rank's samples. `compute` runs one iteration and returns what it
/// took. EnvironmentError where not enough iterations fall beside communication.
std::vector<OverlapSamples> measure_overlap(transport::Transport& control, measure::Engine& engine,
                                            const std::function<double()>& compute,
                                            const OverlapOptions& options);

}  // namespace profiler
