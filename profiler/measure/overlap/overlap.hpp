// Measures how much computation and communication slow each other down: a model's iterations and a backend's
// collectives, alone and at the same time, on all ranks at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "profiler/measure/backend.hpp"

namespace profiler {

struct OverlapOptions {
  std::int64_t bytes = std::int64_t{4} << 20;  ///< of each all-reduce, a multiple of 4
  int warm_up = 2;
  int repetitions = 10;  ///< of each alone; minimum number of counted iterations at the same time
  /// Called before each iteration. `total` is how often, about: more follow if too few iterations counted.
  std::function<void(std::size_t total, const std::string& what)> progress = {};
};

/// Samples of one rank, in microseconds.
struct OverlapSamples {
  std::vector<double> compute_alone;
  std::vector<double> compute_overlapped;  ///< iterations during which communication ran from begin to end
  std::vector<double> communication_alone;
  std::vector<double> communication_overlapped;

  /// Computed from medians; negative if noise exceeds the slow-down.
  double compute_slowdown() const;
  double communication_slowdown() const;
};

/// All ranks call it, and each gets every rank's samples. `compute` runs one iteration and returns its time.
/// Throws EnvironmentError if too few iterations fall into communication.
std::vector<OverlapSamples> measure_overlap(transport::Transport& control, measure::Engine& engine,
                                            const std::function<double()>& compute,
                                            const OverlapOptions& options);

}  // namespace profiler
