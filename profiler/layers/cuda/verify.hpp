// Compares each layer on a GPU with the same layer on the CPU, on the same numbers.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/layers/backend.hpp"
#include "profiler/layers/cuda/executor.hpp"

namespace profiler::cuda {

/// Returns the differences of results and gradients relative to the CPU's, as vector norms; one entry per
/// layer that runs. Each layer reads the CPU's inputs, so differences do not accumulate.
std::vector<LayerDifference> compare_with_cpu(Device& device, const ModelWork& work, std::int64_t batch,
                                              int threads);

/// The difference explained by rounding.
double tolerance(const Arithmetic& arithmetic);

}  // namespace profiler::cuda
