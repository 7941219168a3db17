// Names of a job's tensors, and of the modules that own them.

#pragma once

#include <cstdint>
#include <string>

#include "planner/job/workload.hpp"

namespace planner {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient);

/// A layer, or its tensor where backward takes one tensor after the other.
const std::string& step_name(const Workload& workload, const BackwardStep& step);

/// The name without its last part: the module that has this module or tensor. The model itself is "".
std::string enclosing(const std::string& name);

/// The module that computes with a tensor: the layer's, or else the tensor's name without its last part. In a
/// profile of whole layers the only tensor has the layer's name, which then is the module. PyTorch's
/// nn.MultiheadAttention computes with the weight of its out_proj without calling that module, so that the
/// layer stands for it.
std::string module_of(const Workload& workload, std::uint32_t gradient);

}  // namespace planner
