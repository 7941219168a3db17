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
  std::int64_t without_backward = 0;  ///< layers with or without gradients for which no backward was found
  bool has_backward = false;
};

/// The layers of steps that are alike. The sizes of gradients must be known (find_gradient_sizes), and the
/// host's times (add_host_times).
Layers find_layers(const Trace& trace, const Calls& calls, const std::vector<std::int32_t>& steps);

}  // namespace kineto
