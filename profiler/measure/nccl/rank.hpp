// An NCCL rank: its GPU, stream and communicator, and a watchdog for calls that may not return. Buffers and
// collectives are in other classes.

#pragma once

#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "profiler/cuda_runtime/cuda.hpp"
#include "profiler/cuda_runtime/nccl.hpp"
#include "profiler/measure/backend.hpp"
#include "profiler/measure/nccl/watchdog.hpp"

namespace measure {

class NcclRank {
 public:
  /// All ranks call it.
  NcclRank(transport::Transport& control, EngineOptions options);
  /// After a failure nothing is released, because that may block for ever: the process is about to end, and
  /// is killed if it does not.
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  const EngineOptions& options() const { return options_; }
  const cuda_runtime::Cuda& cuda() const { return cuda_; }
  const cuda_runtime::Nccl& nccl() const { return nccl_; }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  /// Limits `what`, a literal, by the deadline during the lifetime of the result.
  WatchScope watched(const char* what) { return {dog_, what, options_.deadline}; }
  void check(ncclResult_t status, const char* what) const { nccl_.check(status, what, comm_); }
  /// Waits until everything started is done; `last`, a literal, names the last call.
  void finish(const char* last);
  /// Copies between host and GPU, and waits for the end.
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const;
  /// Host memory for copies; shared by all buffers, which are copied one after the other.
  std::span<float> staging(std::size_t count);

  void enter_thread() const;
  /// Returns whether destructors run because of a failure.
  bool is_failing() const { return std::uncaught_exceptions() > exceptions_; }
  std::string description() const;

 private:
  void look_around(const char* last, std::chrono::steady_clock::time_point limit) const;

  std::uint32_t ranks_;
  std::uint32_t rank_;
  EngineOptions options_;
  int exceptions_ = std::uncaught_exceptions();
  Watchdog dog_;
  const cuda_runtime::Cuda& cuda_;
  const cuda_runtime::Nccl& nccl_;
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::vector<float> staging_;
};

/// Floats on the GPU, freed with the object unless something has failed.
class DeviceBuffer {
 public:
  DeviceBuffer(const NcclRank& rank, std::size_t count);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  float* get() const { return data_; }

 private:
  const NcclRank& rank_;
  float* data_ = nullptr;
};

}  // namespace measure
