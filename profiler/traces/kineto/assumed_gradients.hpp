// Gradients of traces that do not name them: where a compiled backward pass accumulates gradients itself,
// there are no AccumulateGrad operators.

#pragma once

#include <string_view>

#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Says in an origin what add_assumed_gradients() did.
constexpr std::string_view kAssumedGradients =
    "ASSUMED, as the trace does not say when gradients become ready (AccumulateGrad): each bucket that was "
    "all-reduced holds one gradient of each layer whose backward pass ended since the bucket before it";

/// Gives gradients to the calls of a trace without any, if it holds buckets of known sizes. A bucket before
/// which no backward pass has ended since the one before it is one gradient of the pass that runs then.
/// Returns whether there are gradients now.
bool add_assumed_gradients(const Trace& trace, Calls& calls);

}  // namespace kineto
