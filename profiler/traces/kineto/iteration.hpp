// What the iterations of a trace are made of: parts of the time of the GPU that add up to the measured
// length.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/host_times.hpp"

namespace kineto {

/// One iteration, from the start of its first forward kernel to that of the next iteration's, or on CPUs,
/// which never lag behind the host, from its marker to the next one; us.
struct Iteration {
  double length_us = 0;          ///< 0: not known
  double optimizer_us = 0;       ///< kernels of the update, and waits for their launch
  double optimizer_wait_us = 0;  ///< these waits
  double layers_us = 0;          ///< kernels of layers
  double exchange_us = 0;        ///< of layers_us, waits for exchanges that are no collectives of gradients
  double exposed_us = 0;         ///< communication while no other kernel ran
  double exposed_before_us = 0;  ///< likewise, in earlier passes than the last, and no part of exposed_us
  double wait_us = 0;  ///< the GPU waited for the host to launch kernels of layers and of the update
  double idle_us = 0;  ///< the GPU waited for what the host does before the next iteration
  double host_us = 0;  ///< what the host did, without waiting for the GPU
  bool synchronizes = false;
  bool has_next = false;  ///< otherwise it lasts until the end of its step, and host_us is not known
  /// What computes and waits without communication.
  double alone_us() const { return length_us - exposed_us; }
  /// What the GPU does itself.
  double device_us() const { return alone_us() - wait_us - idle_us; }
};

/// The iterations of all steps; they have no length where nothing says how long they take. A step whose next
/// one the trace does not hold lasts until its annotation ends, and the usual time between two steps longer,
/// if its work is done by then. Where no step has a next one, all last until their last kernel, or until
/// their annotation ends.
std::vector<Iteration> find_iterations(const Trace& trace, const Calls& calls,
                                       const std::vector<HostIteration>& host);

}  // namespace kineto
