// The kernels on a GPU, for callers without CUDA headers.

#pragma once

#include <memory>

#include "profiler/layers/cuda/kernels.hpp"

namespace profiler::cuda {

/// Runs on a CUDA stream. Throws EnvironmentError if a launch fails.
std::unique_ptr<Kernels> own_kernels(void* stream);

}  // namespace profiler::cuda
