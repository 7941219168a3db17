// The kernels on a GPU, for callers that know no CUDA.

#pragma once

#include <memory>

#include "profiler/cuda/kernels.hpp"

namespace profiler::cuda {

/// On a CUDA stream. Throws WorldError where a launch fails.
std::unique_ptr<Kernels> own_kernels(void* stream);

}  // namespace profiler::cuda
