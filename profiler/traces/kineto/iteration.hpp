// What the iterations of a trace are made of: parts of the time of the GPU that add up to the measured
// length.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

/// One iteration, from the start of its first forward kernel to that of the next iteration's; us.
struct Iteration {
  double length_us = 0;
  double optimizer_us = 0;  ///< kernels of the update, and waits for their launch
  double exposed_us = 0;    ///< communication while no other kernel ran
  double wait_us = 0;       ///< the GPU waited for the host to launch kernels of layers and of the update
  /// What computes and waits without communication.
  double alone_us() const { return length_us - exposed_us; }
};

/// The iterations of these steps. The last step of a trace has no next one and is left out; if it is the only
/// one, it lasts until its last kernel, or until its annotation ends.
std::vector<Iteration> find_iterations(const Trace& trace, const Calls& calls,
                                       const std::vector<std::int32_t>& steps);

}  // namespace kineto
