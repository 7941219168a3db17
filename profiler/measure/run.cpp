#include "profiler/measure/run.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/quantities.hpp"
#include "profiler/measure/exchange_texts.hpp"

namespace measure {
namespace {

using transport::Transport;

constexpr std::uint32_t kBarrierTag = 1;
constexpr std::uint32_t kControlTag = 2;
constexpr std::uint32_t kDrainTag = 3;

struct Stretch {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Identifies the clock: the same for all processes of one host since it was booted.
std::string clock_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

/// Returns the stretches of all ranks on rank 0; nothing on other ranks.
std::vector<std::vector<Stretch>> gathered(Transport& control, const std::vector<Stretch>& own) {
  if (control.rank() != 0) {
    control.send(0, kControlTag, transport::to_bytes(own));
    return {};
  }
  std::vector<std::vector<Stretch>> all = {own};
  for (std::uint32_t rank = 1; rank < control.size(); ++rank) {
    transport::recv_into<Stretch>(control, rank, kControlTag, all.emplace_back(own.size()));
  }
  return all;
}

std::vector<double> durations_us(const std::vector<std::vector<Stretch>>& ranks, bool one_clock, double per) {
  std::vector<double> out;
  for (std::size_t i = 0; !ranks.empty() && i < ranks[0].size(); ++i) {
    std::int64_t start = INT64_MIN;
    std::int64_t end = INT64_MIN;
    std::int64_t longest = 0;
    for (const std::vector<Stretch>& rank : ranks) {
      start = std::max(start, rank[i].start_ns);
      end = std::max(end, rank[i].end_ns);
      longest = std::max(longest, rank[i].end_ns - rank[i].start_ns);
    }
    out.push_back(static_cast<double>(one_clock ? end - start : longest) / 1000 / per);
  }
  return out;
}

/// One rank's part of the measurement.
class Measurement {
 public:
  Measurement(Transport& control, Engine& engine, const RunOptions& wanted)
      : control_(control),
        engine_(engine),
        wanted_(wanted),
        data_(control.size()),
        one_clock_(share_clock(control, kControlTag)) {}

  Samples measure(Collective kind, std::int64_t bytes) {
    given_.resize(static_cast<std::size_t>(bytes) / sizeof(float));
    result_.resize(given_.size());
    data_.fill(control_.rank(), given_);
    for (std::uint32_t i = 0; i < wanted_.warm_up; ++i) (void)checked(kind, bytes);
    std::vector<Stretch> own;
    for (std::uint32_t i = 0; i < wanted_.repetitions; ++i)
      own.push_back(wanted_.timing == Timing::isolated       ? checked(kind, bytes)
                    : wanted_.timing == Timing::back_to_back ? row(kind, bytes, 0, kBatch)
                                                             : row(kind, bytes, 1, 1));
    const double per = wanted_.timing == Timing::back_to_back ? kBatch : 1;
    return {.collective = kind,
            .algorithm = engine_.algorithm(kind),
            .ran = engine_.ran(kind),
            .workers = control_.size(),
            .bytes = bytes,
            .us = durations_us(gathered(control_, own), one_clock_, per)};
  }

 private:
  /// All ranks send to the next rank at once, so that every link is drained in both directions.
  void drain() {
    if (wanted_.drain_bytes == 0) return;
    const std::uint32_t size = control_.size();
    const transport::Bytes got = transport::send_recv(
        control_, (control_.rank() + 1) % size,
        transport::Bytes(static_cast<std::size_t>(wanted_.drain_bytes)), (control_.rank() + size - 1) % size,
        kDrainTag, static_cast<std::size_t>(wanted_.drain_bytes));
    if (std::ranges::any_of(got, [](std::byte each) { return each != std::byte{}; })) spoiled_ = true;
  }

  void start(Collective kind, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) engine_.start(kind);
    engine_.finish();
  }

  Stretch timed(Collective kind, std::uint32_t before, std::uint32_t count) {
    engine_.load(given_);
    transport::barrier(control_, kBarrierTag);
    drain();
    if (before > 0) start(kind, before);
    Stretch stretch;
    stretch.start_ns = now_ns();
    start(kind, count);
    stretch.end_ns = now_ns();
    transport::barrier(control_, kBarrierTag);  // checks use processors that ranks still measuring need
    return stretch;
  }

  Stretch checked(Collective kind, std::int64_t bytes) {
    const Stretch stretch = timed(kind, 0, 1);
    check(kind, bytes);
    return stretch;
  }

  void check(Collective kind, std::int64_t bytes) {
    engine_.store(result_);
    const std::string fault = spoiled_ ? "the data that drained the link arrived changed"
                                       : data_.fault(kind, control_.rank(), result_);
    if (!fault.empty())
      throw core::EnvironmentError(fmt::format("rank {}: {} of {}: {}", control_.rank(), entry(kind).name,
                                               core::bytes_text(bytes), fault));
  }

  /// Runs in place in one buffer; the combined result is not checked.
  Stretch row(Collective kind, std::int64_t bytes, std::uint32_t before, std::uint32_t count) {
    const Stretch stretch = timed(kind, before, count);
    if (engine_.keeps() >= before + count)
      for (std::uint32_t i = 0; i < before + count; ++i) check(kind, bytes);
    else
      (void)checked(kind, bytes);
    return stretch;
  }

  Transport& control_;
  Engine& engine_;
  const RunOptions& wanted_;
  TestData data_;
  bool one_clock_;
  bool spoiled_ = false;  // because of the traffic that drained a link
  std::vector<float> given_;
  std::vector<float> result_;
};

}  // namespace

bool share_clock(Transport& transport, std::uint32_t tag) {
  const std::vector<std::string> all = exchange_texts(transport, tag, clock_name());
  return !all[0].empty() && std::ranges::count(all, all[0]) == std::ssize(all);
}

std::vector<Samples> run(Transport& control, Engine& engine, const RunOptions& wanted,
                         const std::function<void(Collective, std::int64_t)>& progress) {
  Measurement measurement(control, engine, wanted);
  std::vector<Samples> all;
  for (const Collective kind : wanted.collectives)
    for (const std::int64_t bytes : wanted.sizes) {
      if (progress) progress(kind, bytes);
      Samples samples = measurement.measure(kind, bytes);
      if (control.rank() == 0) all.push_back(std::move(samples));
    }
  return all;
}

}  // namespace measure
