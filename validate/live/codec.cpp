#include "validate/live/codec.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/quantities.hpp"
#include "core/statistics.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "validate/live/channel.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/runnable.hpp"

namespace live {
namespace {

using core::CollectiveKind;
using transport::Transport;

constexpr std::uint32_t kSweeps = 3;
/// Groups without coding outside the channel follow each other closely, so links have no idle time between
/// them.
constexpr std::size_t kFollowing = 4;

/// Times at which a rank began, had encoded, had transferred the first and the last group, and had decoded.
using Steps = std::array<std::int64_t, 5>;
/// The durations between steps.
using Stretches = std::array<double, 4>;

std::int64_t ns(Clock::time_point at) { return std::chrono::nanoseconds(at.time_since_epoch()).count(); }

/// A load is timed at once: it is a group, or several consecutive groups.
struct Load {
  Load(const Method& method, const CodeLoad& load, std::size_t groups, const Gradients& gradients,
       std::uint64_t seed)
      : bytes(load.bytes),
        values(groups, std::vector<float>(static_cast<std::size_t>(load.bytes) / sizeof(float))) {
    for (std::vector<float>& each : values) {
      fusion_buffers.push_back(
          std::make_unique<FusionBuffer>(method, each, gradients.ranks(), seed, load.tensors));
      expected.emplace_back(method, gradients, 0, each.size(), seed, load.tensors);
    }
  }

  std::int64_t bytes;
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers;
  std::vector<Expected> expected;
  std::array<std::vector<double>, std::tuple_size_v<Stretches>> us;
};

class Timer {
 public:
  Timer(Transport& transport, const Gradients& gradients, const TimingOptions& options)
      : transport_(transport),
        one_clock_(share_clock(transport)),
        gradients_(gradients),
        channel_(transport, {.deadline = options.deadline}, [this](const Request& request) {
          loaded_->fusion_buffers[request.group]->carry(transport_, CollectiveKind::all_reduce);
        }) {}

  void round(Load& load, bool is_recorded) {
    const std::uint32_t iteration = iteration_++;
    for (std::size_t i = 0; i < load.fusion_buffers.size(); ++i)
      gradients_.fill(load.fusion_buffers[i]->method().spread(), transport_.rank(), iteration, 0,
                      load.values[i]);
    loaded_ = &load;
    transport::barrier(transport_, tag_of(Tag::barrier));
    const Clock::time_point begin = common_start(transport_, one_clock_);
    channel_.sleep_until(begin, true);
    Steps steps = {ns(begin)};
    for (const auto& fusion_buffer : load.fusion_buffers) fusion_buffer->encode();
    steps[1] = ns(Clock::now());
    for (std::uint32_t i = 0; i < load.fusion_buffers.size(); ++i)
      channel_.post({{.label = {.kind = planner::TaskLabel::Kind::all_reduce, .item = i}, .group = i}});
    steps[3] = ns(channel_.wait(load.fusion_buffers.size() - 1));
    for (const auto& fusion_buffer : load.fusion_buffers) fusion_buffer->decode();
    steps[4] = ns(Clock::now());
    steps[2] = ns(channel_.take().front().end);
    transport::barrier(transport_, tag_of(Tag::barrier));  // checks would take processors from ranks that
                                                           // still run
    check(load, iteration);
    const Stretches us = combined(steps);
    for (std::size_t step = 0; is_recorded && step < us.size(); ++step) load.us[step].push_back(us[step]);
  }

 private:
  void check(Load& load, std::uint32_t iteration) const {
    for (std::size_t i = 0; i < load.fusion_buffers.size(); ++i) {
      const std::string fault = load.expected[i].fault(iteration, load.values[i]);
      if (!fault.empty())
        throw core::EnvironmentError(fmt::format("rank {}: a group of {}: {}", transport_.rank(),
                                                 core::bytes_text(load.bytes), fault));
    }
  }

  /// Combines the steps of all ranks, on rank 0.
  Stretches combined(const Steps& own) {
    if (transport_.rank() != 0) {
      transport_.send(0, tag_of(Tag::record), transport::to_bytes(std::span<const std::int64_t>(own)));
      return {};
    }
    Steps last = own;
    std::array<std::int64_t, std::tuple_size_v<Stretches>> longest = {};
    Steps each = own;
    for (std::uint32_t rank = 0; rank < transport_.size(); ++rank) {
      if (rank > 0)
        transport::recv_into<std::int64_t>(transport_, rank, tag_of(Tag::record), std::span(each));
      for (std::size_t i = 0; i < last.size(); ++i) last[i] = std::max(last[i], each[i]);
      for (std::size_t i = 0; i < longest.size(); ++i)
        longest[i] = std::max(longest[i], each[i + 1] - each[i]);
    }
    Stretches out = {};
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(one_clock_ ? last[i + 1] - last[i] : longest[i]) / 1000;
    return out;
  }

  Transport& transport_;
  bool one_clock_;
  const Gradients& gradients_;
  Load* loaded_ = nullptr;
  std::uint32_t iteration_ = 0;
  Channel channel_;
};

planner::CodeCost curve_cost(std::vector<std::pair<double, double>> points) {
  double max = 0;  // enforces monotone costs: a smaller size may have met noise
  for (auto& [bytes, us] : points) us = max = std::max(max, us);
  return {.curve = std::make_shared<const core::CostCurve>(core::CostCurve::through(points))};
}

constexpr std::int64_t kCodedBytes = 4'000'000;  // so that a matrix is not found in the processor's cache

/// The time of an all-reduce of this many elements that nothing encodes.
double dense_us(const core::Network& network, std::uint32_t workers, std::size_t elements) {
  if (elements == 0) return 0;
  return planner::TransferCost(network, workers, {})
      .us(CollectiveKind::all_reduce, static_cast<std::int64_t>(elements * sizeof(float)));
}

/// Costs of a matrix, from those of groups of equal ones.
planner::Compressor measured_low_rank(const TimedCompressor& timed, const std::vector<CodeLoad>& loads,
                                      const core::Network& network, std::uint32_t workers) {
  std::vector<std::pair<double, double>> encode;
  std::vector<std::pair<double, double>> decode;
  std::vector<std::pair<double, double>> in_transit;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const std::vector<low_rank::Matrix>& tensors = loads[i].tensors;
    const auto count = static_cast<double>(tensors.size());
    const double bytes = static_cast<double>(loads[i].bytes) / count;
    low_rank::PowerSgd sent(tensors, low_rank_options(*timed.compressor.low_rank));
    const double sums_us =
        dense_us(network, workers, sent.p().size()) + dense_us(network, workers, sent.q().size());
    encode.emplace_back(bytes, timed.times[i].encode_us / count);
    in_transit.emplace_back(bytes, std::max(0.0, timed.times[i].carry_us - sums_us) / count);
    decode.emplace_back(bytes, timed.times[i].decode_us / count);
  }
  planner::Compressor out = timed.compressor;
  out.encode = curve_cost(std::move(encode));
  out.in_transit = curve_cost(std::move(in_transit));
  out.decode = curve_cost(std::move(decode));
  return out;
}

}  // namespace

std::vector<CodeLoad> code_loads(const planner::Compressor& compressor,
                                 const std::vector<std::int64_t>& sizes, const core::Profile& profile) {
  std::vector<CodeLoad> out;
  if (!compressor.low_rank) {
    for (const std::int64_t bytes : sizes) out.push_back({.bytes = bytes});
    return out;
  }
  std::map<std::size_t, low_rank::Matrix> matrices;  // by elements
  for (const core::ProfileLayer& layer : profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) {
      const low_rank::Matrix matrix = matrix_of(tensor);
      if (low_rank::is_approximated(matrix, low_rank_options(*compressor.low_rank)))
        matrices.emplace(matrix.elements(), matrix);
    }
  // the smallest, the largest, and others evenly between them
  const std::size_t wanted = std::max<std::size_t>(2, sizes.size());
  std::size_t number = 0;
  std::size_t next = 0;
  for (const auto& [elements, matrix] : matrices) {
    if (number++ != next * (matrices.size() - 1) / (wanted - 1) && matrices.size() > wanted) continue;
    ++next;
    const auto bytes = static_cast<std::int64_t>(elements * sizeof(float));
    const std::int64_t count = std::max<std::int64_t>(1, kCodedBytes / bytes);
    out.push_back({.bytes = count * bytes,
                   .tensors = std::vector<low_rank::Matrix>(static_cast<std::size_t>(count), matrix)});
  }
  return out;
}

TimedCompressor time_compressor(Transport& transport, const RequestedCompressor& requested,
                                const std::vector<CodeLoad>& code_loads, std::uint32_t workers_per_node,
                                const TimingOptions& options) {
  planner::Transfer transfer;
  transfer.compressor = requested.compressor;
  const Method method = method_of(transfer, true, workers_per_node, requested.error_feedback);
  const Gradients gradients(options.seed, transport.size());
  std::vector<std::unique_ptr<Load>> loads;
  for (const CodeLoad& load : code_loads)
    loads.push_back(std::make_unique<Load>(method, load, needs_nodes(requested.compressor) ? kFollowing : 1,
                                           gradients, options.seed));
  Timer timer(transport, gradients, options);
  const std::uint32_t rounds = (options.rounds + kSweeps - 1) / kSweeps;
  for (std::uint32_t sweep = 0; sweep < kSweeps; ++sweep)
    for (const auto& load : loads)
      for (std::uint32_t i = 0; i <= rounds; ++i) timer.round(*load, i > 0);
  TimedCompressor out = {.compressor = requested.compressor, .times = {}};
  if (transport.rank() != 0) return out;
  for (const auto& load : loads) {
    const auto median_us = [&](std::size_t stretch) { return core::statistics(load->us[stretch]).median; };
    const std::size_t following = load->fusion_buffers.size() - 1;
    out.times.push_back(
        {.encode_us = median_us(0),
         .carry_us = following == 0 ? median_us(1) : median_us(2) / static_cast<double>(following),
         .decode_us = median_us(3) / static_cast<double>(load->fusion_buffers.size()),
         .ratio = static_cast<double>(load->fusion_buffers.back()->encoded_bytes()) /
                  static_cast<double>(load->bytes)});
  }
  return out;
}

planner::Compressor measured_compressor(const TimedCompressor& timed, const std::vector<CodeLoad>& loads,
                                        const core::Network& network, std::uint32_t workers) {
  if (loads.empty()) return timed.compressor;
  if (timed.compressor.low_rank) return measured_low_rank(timed, loads, network, workers);
  planner::Compressor out = timed.compressor;
  planner::Transfer transfer;
  transfer.compressor = out;
  transfer.compressor.in_transit = {};
  const planner::TransferCost cost(network, workers, transfer);
  std::vector<std::pair<double, double>> encode;
  std::vector<std::pair<double, double>> decode;
  std::vector<std::pair<double, double>> in_transit;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const CodeTimes& times = timed.times[i];
    const auto bytes = static_cast<double>(loads[i].bytes);
    encode.emplace_back(bytes, times.encode_us);
    decode.emplace_back(bytes, times.decode_us);
    if (cost.is_sparse())
      in_transit.emplace_back(
          bytes, std::max(0.0, times.carry_us - cost.us(CollectiveKind::all_reduce, loads[i].bytes)));
    if (!out.sparse && !out.between_nodes) out.ratio = times.ratio;
  }
  out.decodes_each = false;
  if (cost.is_sparse()) out.in_transit = curve_cost(std::move(in_transit));
  if (needs_nodes(out)) {  // everything happens in transit
    out.encode = out.decode = {};
    if (out.sparse) out.decode = curve_cost(std::move(decode));
  } else {
    out.encode = curve_cost(std::move(encode));
    out.decode = curve_cost(std::move(decode));
  }
  if (out.sparse && !out.sparse->recompute_selection.is_free()) out.sparse->recompute_selection = out.encode;
  return out;
}

}  // namespace live
