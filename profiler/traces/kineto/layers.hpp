// Combines the calls of the same layer in every step to one layer of a profile: medians, and their spread
// over steps.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/profile.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

struct Layers {
  std::vector<core::ProfileLayer> layers;
  std::vector<std::int32_t> used_steps;  ///< those with the most frequent sequence of layers
  std::size_t steps_with_layers = 0;
  std::int64_t without_backward = 0;  ///< layers with or without gradients for which no backward was found
  bool has_backward = false;
};

/// The sizes of gradients must be known (find_gradient_sizes), and the host's times (add_host_times).
Layers find_layers(const Trace& trace, const Calls& calls);

double median(std::vector<double> values);
/// Interquartile range; 0 for one value.
double spread(const std::vector<double>& values);

}  // namespace kineto
