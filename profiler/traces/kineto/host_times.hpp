// What the host takes to launch the work of each layer, and whether it waits for the device.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

/// The host in one iteration, from the launch of its first forward kernel to that of the next iteration's.
struct HostIteration {
  std::int64_t layers_ns = 0;  ///< launching the kernels of layers
  std::int64_t rest_ns = 0;    ///< everything else, the update too, but waiting for the device
  bool synchronizes = false;   ///< it waited at some point for everything that it had launched
};

/// Gives every launch the time since the one before it, of any thread, less what the host waited for the
/// device in it; launches of collectives count for what follows them. Sets the host's times of calls and
/// returns the rest, by step.
std::vector<HostIteration> add_host_times(const Trace& trace, Calls& calls);

}  // namespace kineto
