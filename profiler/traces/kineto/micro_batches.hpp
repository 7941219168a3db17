// Gradient accumulation: iterations of several micro-batches, of which only the last one's gradients are
// sent.

#pragma once

#include <cstdint>

#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

/// Takes the calls of all micro-batches but the last out of their step: of all that a step has if they are
/// alike, or else of those that accumulate the same gradients before anything is updated.
/// A micro-batch begins with the first call after gradients of the one before it. Returns the
/// largest number of micro-batches of a step.
std::int64_t keep_last_micro_batches(Calls& calls);

}  // namespace kineto
