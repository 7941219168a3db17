// Runs layers on a GPU with cuDNN, cuBLASLt and own kernels.

#include "profiler/layers/backend.hpp"
#include "profiler/layers/cuda/backend.hpp"

namespace profiler::list {

Backend cuda() {
  return {.name = "cuda",
          .summary = "a GPU, by cuDNN, cuBLASLt and own kernels",
          .check = profiler::cuda::check_backend,
          .bytes = profiler::cuda::backend_bytes,
          .free_bytes = profiler::cuda::backend_free_bytes,
          .open = profiler::cuda::open_backend,
          .verify = profiler::cuda::verify_backend};
}

}  // namespace profiler::list
