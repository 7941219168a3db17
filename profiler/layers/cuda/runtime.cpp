// The CUDA runtime, linked statically: it loads the driver on first use, so the program starts on any
// machine.

#include "profiler/layers/cuda/runtime.hpp"

#include <array>
#include <utility>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace profiler::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaErrorMemoryAllocation)
    throw OutOfMemory(fmt::format("{}: {}", what, cudaGetErrorString(status)));
  if (status != cudaSuccess)
    throw core::EnvironmentError(fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

std::string version_text(int version) {
  constexpr int kMajor = 1000;
  constexpr int kMinor = 10;
  return fmt::format("{}.{}", version / kMajor, version % kMajor / kMinor);
}

class CudaRuntime : public Runtime {
 public:
  CudaRuntime() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
      throw core::EnvironmentError(fmt::format("no CUDA device: {}", cudaGetErrorString(status)));
    if (count == 0) throw core::EnvironmentError("no CUDA device: the driver reports none");
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;
  ~CudaRuntime() override { cudaStreamDestroy(stream_); }

  std::string name() const override { return &properties_.name[0]; }
  std::string versions() const override {
    int driver = 0;
    int runtime = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return fmt::format("driver {}, runtime {}", version_text(driver), version_text(runtime));
  }
  std::string pci_bus() const override {
    std::array<char, 32> out{};
    check(cudaDeviceGetPCIBusId(out.data(), static_cast<int>(out.size()), 0), "cudaDeviceGetPCIBusId");
    return out.data();
  }
  void* stream() override { return stream_; }

  void* allocate(std::size_t bytes) override {
    void* out = nullptr;
    check(cudaMalloc(&out, bytes), "cudaMalloc");
    return out;
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  std::size_t free_bytes() const override {
    std::size_t free = 0;
    std::size_t all = 0;
    check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
    return free;
  }
  void zero(void* memory, std::size_t bytes) override {
    check(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    synchronize();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    synchronize();
  }
  void* allocate_shared(std::size_t bytes) override {
    void* out = nullptr;
    check(cudaHostAlloc(&out, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    return out;
  }
  void release_shared(void* memory) noexcept override { cudaFreeHost(memory); }

  void* create_event() override {
    cudaEvent_t out = nullptr;
    check(cudaEventCreateWithFlags(&out, cudaEventDefault), "cudaEventCreateWithFlags");
    return out;
  }
  void destroy_event(void* event) noexcept override { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
  void record(void* event) override {
    check(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_), "cudaEventRecord");
  }
  double elapsed_us(void* begin, void* end) override {
    constexpr double kUsPerMs = 1e3;
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin), static_cast<cudaEvent_t>(end)),
          "cudaEventElapsedTime");
    return kUsPerMs * static_cast<double>(ms);
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Runtime> open_runtime() { return std::make_unique<CudaRuntime>(); }

}  // namespace profiler::cuda
