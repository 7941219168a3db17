// Parameters of a trace without shapes, guessed from what was copied to the GPU before the first layer ran.

#pragma once

#include <vector>

#include "core/profile.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

/// Gives each convolution and linear layer the sizes of two copies, its weight and its bias, where exactly as
/// many copies to the device came before the first layer as that takes; says whether it did.
bool add_copied_tensors(const Trace& trace, const Calls& calls, core::Dtype dtype,
                        std::vector<core::ProfileLayer>& layers);

}  // namespace kineto
