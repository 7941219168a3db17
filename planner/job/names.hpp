// Names of a job's tensors, and of the modules that own them.

#pragma once

#include <cstdint>
#include <string>

#include "planner/job/workload.hpp"

namespace planner {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient);

/// A layer, or its tensor where backward takes one tensor after the other.
const std::string& step_name(const Workload& workload, const BackwardStep& step);

/// The module that computes with a tensor: its layer, if the tensor's name begins with the layer's, which may
/// hold modules that are never called, as attention in PyTorch does; otherwise the tensor's name without its
/// last part.
std::string module_of(const Workload& workload, std::uint32_t gradient);

}  // namespace planner
