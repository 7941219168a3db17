// What a scenario says besides profile, network, workers and schedules.

#pragma once

#include <cstdint>
#include <vector>

namespace planner {

/// While a worker's channel is busy its compute runs 1 + compute_slowdown times slower, and the other way
/// round.
struct Overlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;

  bool slows() const { return compute_slowdown > 0 || communication_slowdown > 0; }
  bool operator==(const Overlap&) const = default;
};

/// Multiplies each compute task by its own lognormal draw of mean 1.
struct Jitter {
  double sigma = 0;  ///< standard deviation of the logarithm
  std::uint64_t seed = 1;
  bool operator==(const Jitter&) const = default;
};

struct Straggler {
  std::int64_t worker = 0;
  double slowdown = 1;
};

struct Conditions {
  std::int64_t iterations = 3;
  std::int64_t accumulation_steps = 1;
  double read_us = 0;
  bool read_is_overlapped = true;
  double optimizer_us = 0;
  double lars_us = 0;
  bool parallel_tensor_operator = false;
  std::vector<Straggler> stragglers = {};
  Overlap overlap = {};
  Jitter jitter = {};
};

}  // namespace planner
