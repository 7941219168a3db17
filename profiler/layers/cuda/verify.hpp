// Each layer on a GPU beside the same layer on the CPU, on the same numbers.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/layers/backend.hpp"
#include "profiler/layers/cuda/executor.hpp"

namespace profiler::cuda {

/// How far results and gradients differ, as a part of the CPU's, by length; by layer of the model, layers
/// that do not run left out. What a layer reads is the CPU's, so differences do not add up.
std::vector<LayerDifference> compare_with_cpu(Device& device, const ModelWork& work, std::int64_t batch,
                                              int threads);

/// What rounding explains.
double tolerance(const Arithmetic& arithmetic);

}  // namespace profiler::cuda
