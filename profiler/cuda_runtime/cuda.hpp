// The CUDA runtime functions needed for measurements, loaded with dlopen() on first use. Available only if
// the build has found the CUDA headers; kernels are not launched through it.

#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "profiler/cuda_runtime/shared_library.hpp"

namespace cuda_runtime {

// To use another function, add it here.
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

  /// Throws EnvironmentError "{what}: out of memory" (for example) unless the status is cudaSuccess.
  void check(cudaError_t status, const char* what) const;
};

/// Throws EnvironmentError "no CUDA device: ..." if runtime, driver or device is missing. Must not be called
/// before the process has forked its children, because CUDA does not survive a fork.
const Cuda& cuda();
/// Returns at least 1; throws EnvironmentError like cuda().
int device_count();

}  // namespace cuda_runtime
