#include "profiler/measure/nccl/rank.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "collectives/transport/tcp/handshake.hpp"
#include "core/errors.hpp"
#include "profiler/measure/exchange_texts.hpp"
#include "profiler/measure/nccl/names.hpp"

namespace measure {
namespace {

using core::EnvironmentError;
using cuda_runtime::Cuda;

constexpr std::uint32_t kTag = 200;
/// Time limit for a process to end after a failure.
constexpr std::chrono::milliseconds kToEnd(5000);

void set(const char* variable, const std::string& value, bool whatever_is_there = false) {
  ::setenv(variable, value.c_str(), whatever_is_there ? 1 : 0);
}

/// Returns whether NCCL uses sockets instead of direct links between GPUs.
bool over_sockets(const EngineOptions& options) { return options.share_gpu || !options.interface.empty(); }

/// To be called before NCCL is loaded. NCCL rejects two ranks on one GPU unless it takes their processes for
/// two hosts; then only sockets work, and features that need an exclusive GPU are disabled.
void set_environment(const EngineOptions& options, std::uint32_t rank) {
  for (const NcclAlgorithm& each : kNcclAlgorithms)
    if (each.name == options.algorithm) set("NCCL_ALGO", each.in_nccl, true);
  for (const NcclProtocol& each : kNcclProtocols)
    if (each.name == options.protocol) set("NCCL_PROTO", each.in_nccl, true);
  if (!options.interface.empty()) set("NCCL_SOCKET_IFNAME", options.interface, true);
  if (!over_sockets(options)) return;
  set("NCCL_HOSTID", fmt::format("fusewise-{}", rank), true);
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_NET", "Socket");
  set("NCCL_MAX_CTAS", "2");
  set("CUDA_MODULE_LOADING", "EAGER");
  for (const char* off : {"NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE"}) set(off, "0");
  set("NCCL_IB_DISABLE", "1");
}

/// Ranks of a host take its GPUs in turn, or, if their layers run on GPUs, each takes the first that it sees;
/// GPUs must be distinct unless they are shared.
int take_gpu(transport::Transport& control, const Cuda& cuda, const EngineOptions& options) {
  const int count = cuda_runtime::device_count();
  const std::string host = transport::this_process().host;
  const std::vector<std::string> hosts = exchange_texts(control, kTag, host);
  const auto local = std::count(hosts.begin(), hosts.begin() + control.rank(), host);
  const int device = options.computes ? 0 : static_cast<int>(local % count);
  cuda.check(cuda.cudaSetDevice(device), "cudaSetDevice");
  std::array<char, 32> id{};
  cuda.check(cuda.cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device),
             "cudaDeviceGetPCIBusId");
  const std::vector<std::string> gpus =
      exchange_texts(control, kTag, fmt::format("{} of host {}", id.data(), host));
  for (std::size_t rank = 1; rank < gpus.size() && !options.share_gpu; ++rank)
    for (std::size_t other = 0; other < rank; ++other)
      if (gpus[rank] == gpus[other])
        throw EnvironmentError(
            fmt::format("ranks {} and {} have one GPU, {}: expected one for each{}, or --share-gpu", other,
                        rank, gpus[rank], options.computes ? " by CUDA_VISIBLE_DEVICES" : ""));
  return device;
}

std::string asked_for(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : fmt::format(", {}={}", variable, value);
}

EngineOptions prepared(EngineOptions options, std::uint32_t rank) {
  set_environment(options, rank);
  return options;
}

}  // namespace

NcclRank::NcclRank(transport::Transport& control, EngineOptions options)
    : ranks_(control.size()),
      rank_(control.rank()),
      options_(prepared(std::move(options), rank_)),
      dog_(fmt::format("rank {}", rank_), options_.check_others),
      cuda_(cuda_runtime::cuda()),
      nccl_(cuda_runtime::nccl()) {
  const WatchScope begun = watched("CUDA's and NCCL's initialisation");
  device_ = take_gpu(control, cuda_, options_);
  cuda_.check(cuda_.cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  ncclUniqueId id{};
  if (rank_ == 0) nccl_.check(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::vector<std::string> ids =
      exchange_texts(control, kTag, rank_ == 0 ? std::string(id.internal, sizeof id.internal) : "");
  if (ids[0].size() != sizeof id.internal) throw EnvironmentError("NCCL: rank 0 has another ncclUniqueId");
  std::ranges::copy(ids[0], id.internal);
  const auto versions = exchange_texts(control, kTag, nccl_.version());
  for (std::size_t other = 0; other < versions.size(); ++other)
    if (versions[other] != versions[0])
      throw EnvironmentError(
          fmt::format("NCCL: rank 0 has version {} and rank {} has {}: expected one version", versions[0],
                      other, versions[other]));
  check(nccl_.ncclCommInitRank(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_)),
        "ncclCommInitRank");
}

NcclRank::~NcclRank() {
  if (is_failing()) {
    dog_.begin("the process after a failure", kToEnd);
    return;
  }
  const WatchScope ending = watched("ncclCommDestroy");
  if (comm_ != nullptr) (void)nccl_.ncclCommDestroy(comm_);
  if (stream_ != nullptr) (void)cuda_.cudaStreamDestroy(stream_);
}

void NcclRank::finish(const char* last) {
  const WatchScope drained(dog_, "the end of the stream", options_.deadline + kToEnd);
  const auto limit = std::chrono::steady_clock::now() + options_.deadline;
  constexpr std::uint32_t kLooks = 256;  // iterations between checks that take longer
  for (std::uint32_t looked = 1;; ++looked) {
    const cudaError_t status = cuda_.cudaStreamQuery(stream_);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) cuda_.check(status, last);
    if (looked % kLooks == 0) look_around(last, limit);
    std::this_thread::yield();
  }
}

void NcclRank::look_around(const char* last, std::chrono::steady_clock::time_point limit) const {
  ncclResult_t status = ncclSuccess;
  check(nccl_.ncclCommGetAsyncError(comm_, &status), "ncclCommGetAsyncError");
  if (status != ncclInProgress) check(status, last);
  options_.check_others();
  if (std::chrono::steady_clock::now() >= limit)
    throw EnvironmentError(fmt::format("rank {}: {} was not done after {:g} s", rank_, last,
                                       std::chrono::duration<double>(options_.deadline).count()));
}

void NcclRank::copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
  cuda_.check(cuda_.cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
  cuda_.check(cuda_.cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

std::span<float> NcclRank::staging(std::size_t count) {
  if (staging_.size() < count) staging_.resize(count);
  return std::span(staging_).first(count);
}

void NcclRank::enter_thread() const { cuda_.check(cuda_.cudaSetDevice(device_), "cudaSetDevice"); }

std::string NcclRank::description() const {
  cudaDeviceProp properties{};
  cuda_.check(cuda_.cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
  return fmt::format("NCCL {} on {}{}{}{}, launch included, sizes rounded up to whole parts", nccl_.version(),
                     properties.name,
                     options_.share_gpu       ? ", which ranks share, over sockets"
                     : over_sockets(options_) ? ", over sockets"
                                              : "",
                     asked_for("NCCL_ALGO"), asked_for("NCCL_PROTO"));
}

DeviceBuffer::DeviceBuffer(const NcclRank& rank, std::size_t count) : rank_(rank) {
  void* bytes = nullptr;
  rank.cuda().check(rank.cuda().cudaMalloc(&bytes, std::max<std::size_t>(count, 1) * sizeof(float)),
                    "cudaMalloc");
  data_ = static_cast<float*>(bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (!rank_.is_failing()) (void)rank_.cuda().cudaFree(data_);
}

}  // namespace measure
