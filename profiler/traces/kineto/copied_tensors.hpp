// Guesses the parameters of a trace without shapes from the copies to the GPU before the first layer ran.

#pragma once

#include <vector>

#include "core/profile.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

/// Gives each convolution and linear layer the sizes of two copies, its weight and its bias, if the number of
/// copies to the device before the first layer matches; returns whether it does.
bool add_copied_tensors(const Trace& trace, const Calls& calls, core::Dtype dtype,
                        std::vector<core::ProfileLayer>& layers);

}  // namespace kineto
