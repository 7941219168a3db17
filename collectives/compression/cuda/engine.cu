// The kernels on a CUDA device. The runtime is linked statically and loads the driver on first use, so the
// program starts on any machine.

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "collectives/compression/cuda/engine.hpp"

namespace compression::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// One thread on the device.
struct CudaLane {
  static constexpr unsigned kAll = 0xffffffffU;

  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned blocks() const { return gridDim.x; }
  __device__ void sync() const { __syncthreads(); }

  template <typename Word>
  __device__ Word shuffle_xor(Word word, unsigned mask) const {
    return __shfl_xor_sync(kAll, word, static_cast<int>(mask));
  }
  __device__ std::uint64_t shuffle_up(std::uint64_t word, unsigned apart) const {
    return __shfl_up_sync(kAll, static_cast<unsigned long long>(word), apart);
  }
  __device__ std::uint64_t shuffle_xor(std::uint64_t word, unsigned mask) const {
    return __shfl_xor_sync(kAll, static_cast<unsigned long long>(word), static_cast<int>(mask));
  }
  __device__ std::uint32_t ballot(bool is_set) const { return __ballot_sync(kAll, is_set ? 1 : 0); }

  __device__ std::uint32_t add(std::uint32_t* to, std::uint32_t count) const { return atomicAdd(to, count); }
  __device__ void raise(std::uint32_t* to, std::uint32_t min) const { atomicMax(to, min); }
  __device__ void set(std::uint32_t* to, std::uint32_t bits) const { atomicOr(to, bits); }
  __device__ void lower(std::uint64_t* to, std::uint64_t max) const { atomicMin(wide(to), max); }
  __device__ std::uint64_t swap_if(std::uint64_t* at, std::uint64_t expected, std::uint64_t word) const {
    return atomicCAS(wide(at), expected, word);
  }
  /// A word contains all the information, so no other access needs to be ordered with it.
  __device__ void publish(std::uint64_t* to, std::uint64_t word) const { atomicExch(wide(to), word); }
  __device__ std::uint64_t observe(const std::uint64_t* from) const {
    return *reinterpret_cast<const volatile unsigned long long*>(from);
  }
  __device__ void pause() const { __nanosleep(20); }

 private:
  __device__ static unsigned long long* wide(std::uint64_t* word) {
    return reinterpret_cast<unsigned long long*>(word);
  }
};

/// Minimum number of blocks on a multiprocessor, for enough loads in flight: 64 registers per thread.
constexpr unsigned kMinBlocks = 4;

template <typename Body>
__global__ void __launch_bounds__(kThreads, kMinBlocks) run_body(const Body body) {
  __shared__ typename Body::Shared shared;
  body(CudaLane{}, shared);
}

/// The stream of one device and its operations.
class CudaBackend {
 public:
  explicit CudaBackend(int ordinal) : ordinal_(ordinal) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) throw NoDevice(std::string("no CUDA device: ") + cudaGetErrorString(status));
    if (ordinal < 0 || ordinal >= count)
      throw NoDevice("no CUDA device: number " + std::to_string(ordinal) + " of " + std::to_string(count));
    use();
    check(cudaGetDeviceProperties(&properties_, ordinal), "cudaGetDeviceProperties");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() { cudaStreamDestroy(stream_); }

  DeviceInfo info() const {
    return {properties_.name, properties_.totalGlobalMem, properties_.multiProcessorCount};
  }

  void* allocate(std::size_t bytes) {
    use();
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void release(void* memory) noexcept {
    if (memory != nullptr) cudaFree(memory);
  }
  void upload(void* to, const void* from, std::size_t bytes) {
    move(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to, const void* from, std::size_t bytes) {
    move(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    move(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void fill(void* memory, int byte, std::size_t bytes) {
    use();
    if (bytes > 0) check(cudaMemsetAsync(memory, byte, bytes, stream_), "cudaMemsetAsync");
  }
  void synchronize() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  template <typename Body>
  void run(const Body& body, std::uint32_t blocks) {
    use();
    if (blocks == 0) return;
    run_body<Body><<<std::min(blocks, resident<Body>()), kThreads, 0, stream_>>>(body);
    check(cudaGetLastError(), "launching a kernel");
  }

  double timed_ms(const std::function<void()>& work) {
    use();
    Event begin;
    Event end;
    check(cudaEventRecord(begin.event, stream_), "cudaEventRecord");
    work();
    check(cudaEventRecord(end.event, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end.event), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event, end.event), "cudaEventElapsedTime");
    return ms;
  }

 private:
  struct Event {
    Event() { check(cudaEventCreate(&event), "cudaEventCreate"); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
  };

  void use() const { check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  void move(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    use();
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
    if (kind != cudaMemcpyDeviceToDevice) synchronize();
  }

  /// Returns how many blocks of this kernel run at once.
  template <typename Body>
  std::uint32_t resident() const {
    int blocks = 0;
    check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, run_body<Body>, static_cast<int>(kThreads), 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return static_cast<std::uint32_t>(std::max(1, blocks * properties_.multiProcessorCount));
  }

  int ordinal_;
  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> open_engine(int ordinal) { return std::make_unique<EngineOn<CudaBackend>>(ordinal); }

}  // namespace compression::cuda
