// The kernels on a GPU, for callers that know no CUDA.

#pragma once

#include <memory>

#include "profiler/layers/cuda/kernels.hpp"

namespace profiler::cuda {

/// On a CUDA stream. Throws EnvironmentError where a launch fails.
std::unique_ptr<Kernels> own_kernels(void* stream);

}  // namespace profiler::cuda
