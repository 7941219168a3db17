// Iterations of several updates in a trace without step markers, for example of a generator and of what
// judges it.

#pragma once

#include <cstddef>
#include <vector>

#include "profiler/traces/kineto/step.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

struct JoinedUpdates {
  std::vector<Step> steps;
  std::size_t updates = 1;  ///< of a step
  /// Updates differ in their gradients and repeat in no order, so that each of them is left as a step.
  bool is_ambiguous = false;
};

/// Joins steps of one update each that repeat after several of them: in these the same backward operators
/// run, gradients of the same shapes are accumulated and summed, and the same optimizers and loaders of data
/// are called. A step at the begin or the end of the trace may hold less. The ranges of the trace are sorted.
JoinedUpdates joined_updates(const Trace& trace, std::vector<Step> steps);

}  // namespace kineto
