// The part of the CUDA runtime that measuring needs, opened when first asked for. Only where the build has
// found the CUDA headers; kernels are not launched through it.

#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "profiler/cuda_runtime/shared_library.hpp"

namespace cuda_runtime {

// To have one more: add it here.
#define FUSEWISE_CUDA_FUNCTIONS(X) \
  X(cudaDeviceGetPCIBusId)         \
  X(cudaFree)                      \
  X(cudaGetDeviceCount)            \
  X(cudaGetDeviceProperties)       \
  X(cudaGetErrorString)            \
  X(cudaMalloc)                    \
  X(cudaMemcpyAsync)               \
  X(cudaSetDevice)                 \
  X(cudaStreamCreateWithFlags)     \
  X(cudaStreamDestroy)             \
  X(cudaStreamQuery)               \
  X(cudaStreamSynchronize)

struct Cuda {
#define FUSEWISE_MEMBER(name) decltype(&::name) name = nullptr;
  FUSEWISE_CUDA_FUNCTIONS(FUSEWISE_MEMBER)
#undef FUSEWISE_MEMBER
  std::string file;

  /// EnvironmentError "{what}: out of memory" unless it is cudaSuccess.
  void check(cudaError_t status, const char* what) const;
};

/// EnvironmentError "no CUDA device: ..." where there is no runtime, driver or device; never before the
/// process has forked what it forks: CUDA does not survive that.
const Cuda& cuda();
/// At least 1; EnvironmentError likewise.
int device_count();

}  // namespace cuda_runtime
