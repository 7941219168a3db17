// The interface to one GPU and its single stream: memory, events, memory shared with the host. It has no CUDA
// types, so that tests can implement it.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "profiler/common/out_of_memory.hpp"

namespace profiler::cuda {

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  /// "NVIDIA H200"
  virtual std::string name() const = 0;
  /// "driver 13.0, runtime 13.0"
  virtual std::string versions() const = 0;
  virtual std::string pci_bus() const = 0;
  /// A cudaStream_t. The functions below enqueue on it and return, unless they say otherwise.
  virtual void* stream() = 0;

  /// Throws OutOfMemory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual std::size_t free_bytes() const = 0;
  virtual void zero(void* memory, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Copy from and to the host; return when done.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// Host memory that the device sees at the same address.
  virtual void* allocate_shared(std::size_t bytes) = 0;
  virtual void release_shared(void* memory) noexcept = 0;

  virtual void* create_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event) = 0;
  /// Both events must have occurred.
  virtual double elapsed_us(void* begin, void* end) = 0;
  virtual void synchronize() = 0;
};

/// Opens the first GPU. Throws EnvironmentError, "no CUDA device: ...", if there is none.
std::unique_ptr<Runtime> open_runtime();

/// Device memory; its runtime must outlive it.
class Memory {
 public:
  Memory() = default;
  Memory(Runtime& runtime, std::size_t bytes)
      : runtime_(&runtime), data_(bytes > 0 ? runtime.allocate(bytes) : nullptr), bytes_(bytes) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (data_ != nullptr) runtime_->release(data_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Runtime* runtime_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace profiler::cuda
