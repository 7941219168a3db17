// The NCCL functions needed for measurements, loaded with dlopen() on first use. Available only if the build
// has found the headers of CUDA and NCCL.

#pragma once

#include <nccl.h>

#include <string>

#include "profiler/cuda_runtime/shared_library.hpp"

namespace cuda_runtime {

#define FUSEWISE_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)                 \
  X(ncclAllReduce)                 \
  X(ncclBroadcast)                 \
  X(ncclCommDestroy)               \
  X(ncclCommGetAsyncError)         \
  X(ncclCommInitRank)              \
  X(ncclGetErrorString)            \
  X(ncclGetUniqueId)               \
  X(ncclGetVersion)                \
  X(ncclGroupEnd)                  \
  X(ncclGroupStart)                \
  X(ncclRecv)                      \
  X(ncclReduceScatter)             \
  X(ncclSend)

struct Nccl {
#define FUSEWISE_MEMBER(name) decltype(&::name) name = nullptr;
  FUSEWISE_NCCL_FUNCTIONS(FUSEWISE_MEMBER)
#undef FUSEWISE_MEMBER
  /// Only in some versions: returns the reason of the last error; reads NCCL_DEBUG again.
  const char* (*last_error)(ncclComm_t) = nullptr;
  void (*reset_debug)() = nullptr;
  std::string file;

  /// "2.28.9"
  std::string version() const;
  /// Throws EnvironmentError "{what}: unhandled cuda error" (for example) unless the status is ncclSuccess.
  void check(ncclResult_t status, const char* what, ncclComm_t comm = nullptr) const;
};

/// Throws EnvironmentError if NCCL is not installed.
const Nccl& nccl();

}  // namespace cuda_runtime
