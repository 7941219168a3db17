// NCCL's collectives between GPUs, one process per rank. The measured time is the host's: launch,
// communication, and the end of the stream.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "profiler/measure/backend.hpp"
#include "profiler/measure/nccl/names.hpp"
#include "profiler/measure/nccl/rank.hpp"
#include "profiler/measure/nccl/tuning_log.hpp"

namespace measure {
namespace {

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

/// A buffer of equal parts, one per rank; the rank's values are at the begin of each.
class NcclEngine final : public Engine {
 public:
  /// `reads_log`: whether the log is read to find out what ran.
  NcclEngine(std::shared_ptr<NcclRank> rank, bool reads_log)
      : rank_(std::move(rank)), reads_log_(reads_log) {}

  void load(std::span<const float> values) override {
    const WatchScope watched = rank_->watched("a copy to the GPU");
    if (values.size() != count_ || !buffer_) {
      buffer_.reset();
      other_.reset();
      count_ = values.size();
      part_ = own_part(count_, rank_->ranks(), 0).end;
      buffer_ = std::make_unique<DeviceBuffer>(*rank_, padded());
    }
    const std::span<float> staging = rank_->staging(padded());
    std::ranges::fill(staging, 0.0F);
    for (std::uint32_t rank = 0; rank < rank_->ranks(); ++rank) {
      const Part part = own_part(count_, rank_->ranks(), rank);
      std::ranges::copy(values.subspan(part.begin, part.end - part.begin),
                        staging.subspan(rank * part_).begin());
    }
    rank_->copy(buffer_->get(), staging.data(), staging.size_bytes(), cudaMemcpyHostToDevice);
  }

  void store(std::span<float> values) override {
    const WatchScope watched = rank_->watched("a copy from the GPU");
    const std::span<float> staging = rank_->staging(padded());
    rank_->copy(staging.data(), buffer_->get(), staging.size_bytes(), cudaMemcpyDeviceToHost);
    for (std::uint32_t rank = 0; rank < rank_->ranks(); ++rank) {
      const Part part = own_part(count_, rank_->ranks(), rank);
      std::ranges::copy(staging.subspan(rank * part_, part.end - part.begin),
                        values.subspan(part.begin).begin());
    }
  }

  void start(Collective kind) override {
    const WatchScope watched = rank_->watched(entry(kind).name.data());
    last_ = kind;
    if (reads_log_ && !ran_.contains({kind, count_}) && !log_ && rank_->nccl().reset_debug != nullptr &&
        TuningLog::is_wanted())
      log_.emplace(rank_->nccl().reset_debug);
    rank_->check(run(kind), entry(kind).name.data());
  }

  void finish() override {
    rank_->finish(entry(last_).name.data());
    if (reads_log_ && !ran_.contains({last_, count_})) note_what_ran();
  }

  void enter_thread() override { rank_->enter_thread(); }

  std::unique_ptr<Engine> another() const override { return std::make_unique<NcclEngine>(rank_, false); }

  /// Known only if it was requested; NCCL's own choice depends on the size.
  std::string algorithm(Collective kind) const override {
    if (kind == Collective::send_receive) return "";
    for (const NcclAlgorithm& each : kNcclAlgorithms)
      if (each.name == rank_->options().algorithm && kind == Collective::all_reduce)
        return std::string(each.in_network);
    return "";
  }

  std::string ran(Collective kind) const override {
    if (kind == Collective::send_receive) return "";
    const auto found = ran_.find({kind, count_});
    return found == ran_.end() ? "unknown" : found->second;
  }

  std::string description() const override { return rank_->description(); }

 private:
  std::size_t padded() const { return part_ * rank_->ranks(); }

  ncclResult_t run(Collective kind) {
    const cuda_runtime::Nccl& nccl = rank_->nccl();
    ncclComm_t const comm = rank_->comm();
    cudaStream_t const stream = rank_->stream();
    float* const all = buffer_->get();
    float* const own = all + rank_->rank() * part_;
    switch (kind) {
      case Collective::all_reduce:
        return nccl.ncclAllReduce(all, all, padded(), ncclFloat32, ncclSum, comm, stream);
      case Collective::reduce_scatter:
        return nccl.ncclReduceScatter(all, own, part_, ncclFloat32, ncclSum, comm, stream);
      case Collective::all_gather: return nccl.ncclAllGather(own, all, part_, ncclFloat32, comm, stream);
      case Collective::broadcast: return nccl.ncclBroadcast(all, all, padded(), ncclFloat32, 0, comm, stream);
      case Collective::send_receive: break;
    }
    if (!other_) other_ = std::make_unique<DeviceBuffer>(*rank_, padded());
    const std::uint32_t ranks = rank_->ranks();
    const auto next = static_cast<int>((rank_->rank() + 1) % ranks);
    const auto before = static_cast<int>((rank_->rank() + ranks - 1) % ranks);
    rank_->check(nccl.ncclGroupStart(), "ncclGroupStart");
    rank_->check(nccl.ncclSend(all, padded(), ncclFloat32, next, comm, stream), "ncclSend");
    rank_->check(nccl.ncclRecv(other_->get(), padded(), ncclFloat32, before, comm, stream), "ncclRecv");
    std::swap(buffer_, other_);
    return nccl.ncclGroupEnd();
  }

  void note_what_ran() {
    std::string& ran = ran_[{last_, count_}];
    ran = "unknown";
    if (!log_) return;
    if (const std::optional<TuningChoice> taken = last_choice(log_->text(), function_name(last_)))
      ran = taken->algorithm + '/' + taken->protocol;
    log_.reset();
  }

  std::shared_ptr<NcclRank> rank_;
  bool reads_log_;
  std::size_t count_ = 0;  ///< values of the caller's
  std::size_t part_ = 0;   ///< values of each part
  std::unique_ptr<DeviceBuffer> buffer_;
  std::unique_ptr<DeviceBuffer> other_;  ///< destination of send_receive
  Collective last_ = Collective::all_reduce;
  std::map<std::pair<Collective, std::size_t>, std::string> ran_;
  std::optional<TuningLog> log_;
};

std::unique_ptr<Engine> make(transport::Transport& control, const EngineOptions& options) {
  auto rank = std::make_shared<NcclRank>(control, options);
  const bool is_first = rank->rank() == 0;
  return std::make_unique<NcclEngine>(std::move(rank), is_first);
}

std::uint32_t max_ranks(const EngineOptions& options) {
  const int count = cuda_runtime::device_count();
  (void)cuda_runtime::nccl();
  return options.share_gpu ? std::numeric_limits<std::uint32_t>::max() : static_cast<std::uint32_t>(count);
}

}  // namespace

CollectiveBackend nccl_backend() {
  return {.name = "nccl",
          .summary = kNcclSummary,
          .algorithms = [] { return names_of(kNcclAlgorithms); },
          .protocols = [] { return names_of(kNcclProtocols); },
          .uses_control = false,
          .max_ranks = max_ranks,
          .make = make};
}

}  // namespace measure
