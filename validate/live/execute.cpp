#include "validate/live/execute.hpp"

#include <memory>

#include "collectives/transport/bytes.hpp"
#include "profiler/common/noise.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/worker.hpp"

namespace live {
namespace {

using transport::Bytes;
using transport::Transport;

/// Serializes numbers as bytes.
class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  template <typename T>
  void put_all(const T& values) {
    put(values.size());
    for (const auto& value : values) put(value);
  }
  Bytes take() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(const Bytes& bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value{};
    if (bytes_.size() - at_ < sizeof value)
      throw transport::TransportError("a record that ends before it should");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  template <typename T>
  T get_all() {
    T values;
    const auto count = get<std::size_t>();
    for (std::size_t i = 0; i < count; ++i) values.push_back(get<typename T::value_type>());
    return values;
  }

 private:
  const Bytes& bytes_;
  std::size_t at_ = 0;
};

/// A worker's record with its processor statistics.
struct SentRecord {
  WorkerRecord worker;
  profiler::ProcessorTimes busy;
};

Bytes packed(const SentRecord& record) {
  Writer out;
  out.put(record.busy);
  out.put(record.worker.rank);
  out.put_all(record.worker.host);
  out.put(record.worker.pid);
  out.put_all(record.worker.loop_us);
  out.put(record.worker.iterations.size());
  for (const Iteration& iteration : record.worker.iterations) {
    out.put(iteration.length_us);
    out.put_all(iteration.pieces);
  }
  return std::move(out).take();
}

SentRecord unpacked(Reader& in) {
  SentRecord out;
  out.busy = in.get<profiler::ProcessorTimes>();
  out.worker.rank = in.get<std::uint32_t>();
  out.worker.host = in.get_all<std::string>();
  out.worker.pid = in.get<std::int64_t>();
  out.worker.loop_us = in.get_all<std::vector<double>>();
  const auto count = in.get<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) {
    Iteration& iteration = out.worker.iterations.emplace_back();
    iteration.length_us = in.get<double>();
    iteration.pieces = in.get_all<std::vector<Piece>>();
  }
  return out;
}

/// The data of all workers in rank order, on rank 0; empty on the others.
Bytes gathered(Transport& transport, Bytes own) {
  if (transport.rank() != 0) {
    transport.send(0, tag_of(Tag::record), std::move(own));
    return {};
  }
  for (std::uint32_t rank = 1; rank < transport.size(); ++rank) {
    const Bytes other = transport.recv(rank, tag_of(Tag::record));
    own.insert(own.end(), other.begin(), other.end());
  }
  return own;
}

profiler::ProcessorTimes since(const std::optional<profiler::ProcessorTimes>& before) {
  const auto after = profiler::processor_times();
  if (!before || !after) return {};
  return {.busy_s = after->busy_s - before->busy_s,
          .own_s = after->own_s - before->own_s,
          .interrupts_s = after->interrupts_s - before->interrupts_s,
          .all_s = after->all_s - before->all_s};
}

/// The share of rank 0's processor time used neither by workers nor by the kernel for packets.
std::optional<double> busy_elsewhere(const std::vector<SentRecord>& all) {
  const profiler::ProcessorTimes& busy = all.front().busy;
  double own_s = 0;
  for (const SentRecord& record : all) {
    if (record.worker.host != all.front().worker.host) return {};
    own_s += record.busy.own_s;
  }
  if (busy.all_s <= 0) return {};
  return std::max(0.0, busy.busy_s - busy.interrupts_s - own_s) / busy.all_s;
}

}  // namespace

Record execute(WorkerGroup& worker_group, const RunSpec& spec, const Calibration& calibration,
               const Prediction& prediction, const WorkerGroupHooks& hooks) {
  const WorkerGroup::Task rank = [&](Transport& transport, measure::Engine* engine,
                                     const WorkerGroup::OnPhase& on_phase) {
    WorkerOptions options = {.deadline = std::chrono::milliseconds(
                                 static_cast<std::int64_t>(1000 * worker_group.place().deadline_s)),
                             .engine = engine,
                             .on_phase = on_phase};
    if (spec.layers && spec.layers->are_run_by(transport.rank()))
      options.layers = worker_group.layers(*spec.layers).work();
    const auto before = profiler::processor_times();
    SentRecord record = {.worker = run_worker(transport, spec, calibration.profile, prediction, options),
                         .busy = {}};
    record.busy = since(before);
    return gathered(transport, packed(record));
  };
  const Bytes bytes = worker_group.run(rank, hooks);
  Reader in(bytes);
  std::vector<SentRecord> all;
  for (std::uint32_t worker = 0; worker < worker_group.workers(); ++worker) all.push_back(unpacked(in));
  Record out = {.workers = {}, .busy_elsewhere = busy_elsewhere(all), .where = worker_group.where()};
  for (SentRecord& record : all) out.workers.push_back(std::move(record.worker));
  return out;
}

}  // namespace live
