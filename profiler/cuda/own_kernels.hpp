#pragma once

#include <memory>

#include "profiler/cuda/kernels.hpp"

namespace profiler::cuda {

/// On a CUDA stream. Throws std::runtime_error where a launch fails.
std::unique_ptr<Kernels> own_kernels(void* stream);

}  // namespace profiler::cuda
