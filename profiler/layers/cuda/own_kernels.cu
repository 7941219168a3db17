// The bodies as CUDA kernels on one stream.

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/errors.hpp"
#include "profiler/layers/cuda/kernels_on.hpp"
#include "profiler/layers/cuda/own_kernels.hpp"

namespace profiler::cuda {
namespace {

struct CudaLane {
  static constexpr unsigned kAll = 0xffffffffU;
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned blocks() const { return gridDim.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ float shuffle_xor(float word, unsigned mask) const {
    return __shfl_xor_sync(kAll, word, static_cast<int>(mask));
  }
};

template <typename Body>
__global__ void __launch_bounds__(kTeamThreads) run_each(const Body body, const std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

template <typename Body>
__global__ void __launch_bounds__(kTeamThreads) run_rows(const Body body) {
  __shared__ typename Body::Shared shared;
  body(CudaLane{}, shared);
}

__global__ void hold_stream(const int* flag, int ticket, std::int64_t max_ns, int* late) {
  const auto now = [] {
    std::int64_t ns = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  };
  const std::int64_t end = now() + max_ns;
  while (*reinterpret_cast<const volatile int*>(flag) < ticket) {
    if (now() > end) {
      *reinterpret_cast<volatile int*>(late) = *reinterpret_cast<volatile int*>(late) + 1;
      return;
    }
    __nanosleep(200);
  }
}

class Launch {
 public:
  explicit Launch(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  void hold(const int* flag, int ticket, std::int64_t max_ns, int* late) const {
    hold_stream<<<1, 1, 0, stream_>>>(flag, ticket, max_ns, late);
    check();
  }
  template <typename Body>
  void each(const Body& body, std::int64_t count) const {
    run_each<<<blocks((count + kTeamThreads - 1) / kTeamThreads), kTeamThreads, 0, stream_>>>(body, count);
    check();
  }
  template <typename Body>
  void rows(const Body& body, std::int64_t count) const {
    run_rows<<<blocks(count), kTeamThreads, 0, stream_>>>(RowsBody<Body>{body, count});
    check();
  }
  template <typename Body>
  void short_rows(const Body& body, std::int64_t count) const {
    run_rows<<<blocks((count + kTeamWarps - 1) / kTeamWarps), kTeamThreads, 0, stream_>>>(
        ShortRowsBody<Body>{body, count});
    check();
  }

 private:
  static unsigned blocks(std::int64_t wanted) {
    constexpr std::int64_t kMax = 1 << 20;
    return static_cast<unsigned>(std::min(wanted, kMax));
  }
  static void check() {
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess)
      throw core::EnvironmentError(std::string("launching a kernel: ") + cudaGetErrorString(status));
  }

  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<Kernels> own_kernels(void* stream) { return std::make_unique<KernelsOn<Launch>>(stream); }

}  // namespace profiler::cuda
