// NCCL's collectives between GPUs, a process for each rank. What is timed is what the host sees: launch,
// communication, and the end of the stream.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "models/errors.hpp"
#include "profiler/cuda_runtime/cuda.hpp"
#include "profiler/cuda_runtime/nccl.hpp"
#include "profiler/measure/backend.hpp"
#include "profiler/measure/nccl/names.hpp"
#include "profiler/measure/nccl/tuning_log.hpp"
#include "profiler/measure/nccl/watchdog.hpp"
#include "profiler/measure/told_by_all.hpp"
#include "transport/tcp/hello.hpp"

namespace measure {
namespace {

using cuda_runtime::Cuda;
using cuda_runtime::Nccl;
using models::WorldError;

constexpr std::uint32_t kTag = 200;
/// What a process has to end in once something has failed.
constexpr std::chrono::milliseconds kToEnd(5000);

const char* function_name(Collective kind) {
  switch (kind) {
    case Collective::all_reduce: return "AllReduce";
    case Collective::reduce_scatter: return "ReduceScatter";
    case Collective::all_gather: return "AllGather";
    case Collective::broadcast: return "Broadcast";
    case Collective::send_receive: return "Send";
  }
  return "";
}

void set(const char* variable, const std::string& value, bool whatever_is_there = false) {
  ::setenv(variable, value.c_str(), whatever_is_there ? 1 : 0);
}

/// Not by what a host has between its GPUs.
bool over_sockets(const EngineWishes& wishes) { return wishes.share_gpu || !wishes.interface.empty(); }

/// Before NCCL is opened. Two ranks on a GPU are refused unless NCCL takes their processes for two hosts;
/// then sockets are all they have, and what needs a GPU of one's own is off.
void set_environment(const EngineWishes& wishes, std::uint32_t rank) {
  for (const NcclAlgorithm& each : kNcclAlgorithms)
    if (each.name == wishes.algorithm) set("NCCL_ALGO", each.in_nccl, true);
  for (const NcclProtocol& each : kNcclProtocols)
    if (each.name == wishes.protocol) set("NCCL_PROTO", each.in_nccl, true);
  if (!wishes.interface.empty()) set("NCCL_SOCKET_IFNAME", wishes.interface, true);
  if (!over_sockets(wishes)) return;
  set("NCCL_HOSTID", fmt::format("fusewise-{}", rank), true);
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_NET", "Socket");
  set("NCCL_MAX_CTAS", "2");
  set("CUDA_MODULE_LOADING", "EAGER");
  for (const char* off : {"NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE"}) set(off, "0");
  set("NCCL_IB_DISABLE", "1");
}

/// Ranks of a host take its GPUs in turn; each must be another one, unless they are shared.
int take_gpu(transport::Transport& control, const Cuda& cuda, bool may_share) {
  const int count = cuda_runtime::device_count();
  const std::string host = transport::this_process().host;
  const std::vector<std::string> hosts = told_by_all(control, kTag, host);
  const auto local = std::count(hosts.begin(), hosts.begin() + control.rank(), host);
  const int device = static_cast<int>(local % count);
  cuda.check(cuda.cudaSetDevice(device), "cudaSetDevice");
  std::array<char, 32> id{};
  cuda.check(cuda.cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device),
             "cudaDeviceGetPCIBusId");
  const std::vector<std::string> gpus =
      told_by_all(control, kTag, fmt::format("{} of host {}", id.data(), host));
  for (std::size_t rank = 1; rank < gpus.size() && !may_share; ++rank)
    for (std::size_t other = 0; other < rank; ++other)
      if (gpus[rank] == gpus[other])
        throw WorldError(
            fmt::format("ranks {} and {} have one GPU, {}: expected one for each, or --share-gpu", other,
                        rank, gpus[rank]));
  return device;
}

/// Floats on the device, freed with it.
class DeviceBuffer {
 public:
  DeviceBuffer(const Cuda& cuda, std::size_t count) : cuda_(cuda) {
    void* bytes = nullptr;
    cuda.check(cuda.cudaMalloc(&bytes, std::max<std::size_t>(count, 1) * sizeof(float)), "cudaMalloc");
    data_ = static_cast<float*>(bytes);
  }
  ~DeviceBuffer() { (void)cuda_.cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  float* get() const { return data_; }

 private:
  const Cuda& cuda_;
  float* data_ = nullptr;
};

class NcclEngine final : public Engine {
 public:
  NcclEngine(transport::Transport& control, EngineWishes wishes)
      : ranks_(control.size()),
        rank_(control.rank()),
        wishes_(std::move(wishes)),
        dog_(fmt::format("rank {}", rank_), wishes_.check_others),
        cuda_(cuda_runtime::cuda()),
        nccl_(cuda_runtime::nccl()) {
    const Watched watched(dog_, "CUDA's and NCCL's initialisation", wishes_.deadline);
    device_ = take_gpu(control, cuda_, wishes_.share_gpu);
    cuda_.check(cuda_.cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    ncclUniqueId id{};
    if (rank_ == 0) nccl_.check(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::vector<std::string> ids =
        told_by_all(control, kTag, rank_ == 0 ? std::string(id.internal, sizeof id.internal) : "");
    if (ids[0].size() != sizeof id.internal) throw WorldError("NCCL: rank 0 has another ncclUniqueId");
    std::copy(ids[0].begin(), ids[0].end(), id.internal);
    const auto versions = told_by_all(control, kTag, nccl_.version());
    for (std::size_t other = 0; other < versions.size(); ++other)
      if (versions[other] != versions[0])
        throw WorldError(fmt::format("NCCL: rank 0 has version {} and rank {} has {}: expected one version",
                                     versions[0], other, versions[other]));
    check(nccl_.ncclCommInitRank(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_)),
          "ncclCommInitRank");
  }

  /// After a failure nothing is taken down, as that may wait for ever: the process is about to end, and is
  /// ended if it does not.
  ~NcclEngine() override {
    if (std::uncaught_exceptions() > exceptions_) {
      dog_.begin("the process after a failure", kToEnd);
      (void)buffer_.release();
      (void)other_.release();
      return;
    }
    const Watched watched(dog_, "ncclCommDestroy", wishes_.deadline);
    if (comm_ != nullptr) (void)nccl_.ncclCommDestroy(comm_);
    if (stream_ != nullptr) (void)cuda_.cudaStreamDestroy(stream_);
  }
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;

  void load(std::span<const float> values) override {
    const Watched watched(dog_, "a copy to the GPU", wishes_.deadline);
    if (values.size() != count_ || !buffer_) {
      buffer_.reset();
      other_.reset();
      count_ = values.size();
      part_ = own_part(count_, ranks_, 0).end;
      padded_.assign(part_ * ranks_, 0.0F);
      buffer_ = std::make_unique<DeviceBuffer>(cuda_, padded_.size());
      other_ = std::make_unique<DeviceBuffer>(cuda_, padded_.size());
    }
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const Part part = own_part(count_, ranks_, rank);
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(part.begin),
                values.begin() + static_cast<std::ptrdiff_t>(part.end), at(rank));
    }
    copy(buffer_->get(), padded_.data(), cudaMemcpyHostToDevice);
  }

  void store(std::span<float> values) override {
    const Watched watched(dog_, "a copy from the GPU", wishes_.deadline);
    copy(padded_.data(), buffer_->get(), cudaMemcpyDeviceToHost);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const Part part = own_part(count_, ranks_, rank);
      std::copy_n(at(rank), part.end - part.begin, values.begin() + static_cast<std::ptrdiff_t>(part.begin));
    }
  }

  void start(Collective kind) override {
    const Watched watched(dog_, entry(kind).name.data(), wishes_.deadline);
    last_ = kind;
    if (rank_ == 0 && !ran_.contains({kind, count_}) && !log_ && nccl_.reset_debug != nullptr &&
        TuningLog::is_wanted())
      log_.emplace(nccl_.reset_debug);
    check(run(kind), entry(kind).name.data());
  }

  void finish() override {
    const Watched watched(dog_, "the end of the stream", wishes_.deadline + kToEnd);
    const auto limit = std::chrono::steady_clock::now() + wishes_.deadline;
    constexpr std::uint32_t kLooks = 256;  // between those at what takes longer to look at
    for (std::uint32_t looked = 1;; ++looked) {
      const cudaError_t status = cuda_.cudaStreamQuery(stream_);
      if (status == cudaSuccess) break;
      if (status != cudaErrorNotReady) cuda_.check(status, entry(last_).name.data());
      if (looked % kLooks == 0) look_around(limit);
      std::this_thread::yield();
    }
    if (rank_ == 0 && !ran_.contains({last_, count_})) note_what_ran();
  }

  void enter_thread() override { cuda_.check(cuda_.cudaSetDevice(device_), "cudaSetDevice"); }

  /// Where one was asked for; what NCCL takes by itself changes with the size.
  std::string algorithm(Collective kind) const override {
    if (kind == Collective::send_receive) return "";
    for (const NcclAlgorithm& each : kNcclAlgorithms)
      if (each.name == wishes_.algorithm && kind == Collective::all_reduce)
        return std::string(each.in_network);
    return "";
  }

  std::string ran(Collective kind) const override {
    if (kind == Collective::send_receive) return "";
    const auto found = ran_.find({kind, count_});
    return found == ran_.end() ? "unknown" : found->second;
  }

  std::string description() const override {
    cudaDeviceProp properties{};
    cuda_.check(cuda_.cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    return fmt::format("NCCL {} on {}{}{}{}, launch included, sizes rounded up to whole parts",
                       nccl_.version(), properties.name,
                       wishes_.share_gpu       ? ", which ranks share, over sockets"
                       : over_sockets(wishes_) ? ", over sockets"
                                               : "",
                       asked_for("NCCL_ALGO"), asked_for("NCCL_PROTO"));
  }

 private:
  static std::string asked_for(const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : fmt::format(", {}={}", variable, value);
  }

  void check(ncclResult_t status, const char* what) const { nccl_.check(status, what, comm_); }

  std::vector<float>::iterator at(std::uint32_t rank) {
    return padded_.begin() + static_cast<std::ptrdiff_t>(rank * part_);
  }

  void copy(void* to, const void* from, cudaMemcpyKind kind) {
    cuda_.check(cuda_.cudaMemcpyAsync(to, from, padded_.size() * sizeof(float), kind, stream_),
                "cudaMemcpyAsync");
    cuda_.check(cuda_.cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  ncclResult_t run(Collective kind) {
    float* const all = buffer_->get();
    float* const own = all + rank_ * part_;
    const std::size_t count = padded_.size();
    switch (kind) {
      case Collective::all_reduce:
        return nccl_.ncclAllReduce(all, all, count, ncclFloat32, ncclSum, comm_, stream_);
      case Collective::reduce_scatter:
        return nccl_.ncclReduceScatter(all, own, part_, ncclFloat32, ncclSum, comm_, stream_);
      case Collective::all_gather: return nccl_.ncclAllGather(own, all, part_, ncclFloat32, comm_, stream_);
      case Collective::broadcast: return nccl_.ncclBroadcast(all, all, count, ncclFloat32, 0, comm_, stream_);
      case Collective::send_receive: break;
    }
    check(nccl_.ncclGroupStart(), "ncclGroupStart");
    check(nccl_.ncclSend(all, count, ncclFloat32, static_cast<int>((rank_ + 1) % ranks_), comm_, stream_),
          "ncclSend");
    check(nccl_.ncclRecv(other_->get(), count, ncclFloat32, static_cast<int>((rank_ + ranks_ - 1) % ranks_),
                         comm_, stream_),
          "ncclRecv");
    std::swap(buffer_, other_);
    return nccl_.ncclGroupEnd();
  }

  void look_around(std::chrono::steady_clock::time_point limit) const {
    ncclResult_t status = ncclSuccess;
    check(nccl_.ncclCommGetAsyncError(comm_, &status), "ncclCommGetAsyncError");
    if (status != ncclInProgress) check(status, entry(last_).name.data());
    wishes_.check_others();
    if (std::chrono::steady_clock::now() >= limit)
      throw WorldError(fmt::format("rank {}: {} was not done after {:g} s", rank_, entry(last_).name,
                                   std::chrono::duration<double>(wishes_.deadline).count()));
  }

  void note_what_ran() {
    std::string& ran = ran_[{last_, count_}];
    ran = "unknown";
    if (!log_) return;
    if (const std::optional<Taken> taken = last_taken(log_->text(), function_name(last_)))
      ran = taken->algorithm + '/' + taken->protocol;
    log_.reset();
  }

  std::uint32_t ranks_;
  std::uint32_t rank_;
  EngineWishes wishes_;
  int exceptions_ = std::uncaught_exceptions();
  Watchdog dog_;
  const Cuda& cuda_;
  const Nccl& nccl_;
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::size_t count_ = 0;  ///< values of the caller's
  std::size_t part_ = 0;   ///< of each rank, all of one length
  std::vector<float> padded_;
  std::unique_ptr<DeviceBuffer> buffer_;
  std::unique_ptr<DeviceBuffer> other_;  ///< what send_receive receives
  Collective last_ = Collective::all_reduce;
  std::map<std::pair<Collective, std::size_t>, std::string> ran_;
  std::optional<TuningLog> log_;
};

std::unique_ptr<Engine> make(transport::Transport& control, const EngineWishes& wishes) {
  set_environment(wishes, control.rank());
  return std::make_unique<NcclEngine>(control, wishes);
}

std::uint32_t most_ranks(const EngineWishes& wishes) {
  const int count = cuda_runtime::device_count();
  (void)cuda_runtime::nccl();
  return wishes.share_gpu ? std::numeric_limits<std::uint32_t>::max() : static_cast<std::uint32_t>(count);
}

}  // namespace

CollectiveBackend nccl_backend() {
  return {.name = "nccl",
          .summary = kNcclSummary,
          .algorithms = [] { return names_of(kNcclAlgorithms); },
          .protocols = [] { return names_of(kNcclProtocols); },
          .uses_control = false,
          .most_ranks = most_ranks,
          .make = make};
}

}  // namespace measure
