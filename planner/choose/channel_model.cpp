// The model of pipelines with one collective per group (wfbp, after_backward). The state holds when the
// channel is free; with encoding, the delay of backward so far; with decoding, the total coding time so far
// and when everything so far would be decoded if compute were idle.

#include <optional>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/choose/straight_channel.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

enum class Codec { none, encode, both };

/// The cost of a group and where it ends.
struct ChannelStep {
  std::uint32_t end = 0;
  Time tick{};
  GroupCost cost;
};

template <Codec kCoding>
class ChannelProblem {
 public:
  static constexpr std::size_t kStates = kCoding == Codec::none ? 1 : kCoding == Codec::encode ? 2 : 4;
  using State = ParetoState<kStates>;
  using Step = ChannelStep;

  ChannelProblem(const IterationSpec& spec, bool after_backward)
      : spec_(spec), channel_(spec, CollectiveKind::all_reduce, after_backward) {
    const Extras& extras = spec.extras;
    rest_ = extras.read + spec.workload.forward_total + extras.lars + extras.lars_gather + extras.update;
  }

  void prepare_bounds() {
    channel_.prepare_bounds();
    min_coding_ = min_coding(spec_);
    min_decoding_ = min_decoding(spec_);
    if (kCoding != Codec::none && transfers() > 1) add_mixes();
    min_encoded_ = min_encoding_before(spec_);
  }

  static std::int64_t slack_counts() { return 1; }
  std::uint32_t count() const { return spec_.workload.gradient_count(); }
  std::uint32_t transfers() const { return static_cast<std::uint32_t>(spec_.transfers.size()); }
  static State start() { return {}; }
  static State min(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const { return channel_.longer_costs_more() && coding_grows(spec_); }

  /// The optimum of all groupings where a group costs nothing but a curve that never falls; none elsewhere.
  std::optional<OptimalGroups> optimal_at_once() const {
    const TransferCost& transfer = spec_.transfers.front();
    const bool is_plain = transfer.workers() == 1 || transfer.transfer().compressor.is_none();
    if (kCoding != Codec::none || transfers() > 1 || !is_plain || !channel_.longer_costs_more()) return {};
    const StraightChannel channel = {.ready = channel_.ready(),
                                     .bytes_before = spec_.workload.bytes_before,
                                     .curve = transfer.costs().of(CollectiveKind::all_reduce).curve,
                                     .wire = transfer.wire_bytes(CollectiveKind::all_reduce, 1)};
    const std::vector<Time> ends = earliest_ends(channel);
    const Time by = std::max(spec_.workload.backward_total, ends.back());
    return OptimalGroups{
        .groups = simplest_groups(channel, ends, by), .value = rest_ + by, .largest_front = 1};
  }

  Step step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer, Time tick = {}) const {
    const Payload payload = payload_between(spec_.workload, begin, end);
    return {.end = end,
            .tick = tick,
            .cost = spec_.transfers[transfer].cost(CollectiveKind::all_reduce, payload)};
  }

  State extend(const State& state, const Step& step) const {
    State out{};
    Time encoded{};
    if constexpr (kCoding != Codec::none) encoded = out[kEncoded] = state[kEncoded] + step.cost.encode;
    out[kFree] = channel_.extend(state[kFree], encoded, step.end, step.tick, step.cost.channel);
    if constexpr (kCoding == Codec::both) {
      out[kCoded] = state[kCoded] + step.cost.encode + step.cost.decode;
      out[kDecoded] = std::max(state[kDecoded], out[kFree]) + step.cost.decode;
    }
    return out;
  }

  State settle(State state, std::uint32_t cut) const {
    if (cut == count()) return state;
    Time encoded{};
    if constexpr (kCoding != Codec::none) encoded = state[kEncoded];
    state[kFree] = std::max(state[kFree], channel_.next_start(cut) + encoded);
    if constexpr (kCoding == Codec::both)  // nothing is decoded before the next group has arrived
      state[kDecoded] = std::max(state[kDecoded], state[kFree] + channel_.min_next(cut));
    return state;
  }

  std::optional<State> latest(const State& after, const Step& step) const {
    State out{};
    Time arrived = after[kFree];
    if constexpr (kCoding == Codec::both) {
      out[kDecoded] = after[kDecoded] - step.cost.decode;
      out[kCoded] = after[kCoded] - step.cost.encode - step.cost.decode;
      arrived = std::min(arrived, out[kDecoded]);
    }
    out[kFree] = arrived - step.cost.channel;
    const Time encoded = channel_.latest_encoding(out[kFree], step.end, step.tick);
    if (encoded < min_encoded_[step.end]) return std::nullopt;
    if constexpr (kCoding != Codec::none)
      out[kEncoded] = std::min(after[kEncoded], encoded) - step.cost.encode;
    return out;
  }

  State greatest_end(Time value) const { return latest_end({}, value); }

  State latest_end(const State& /*state*/, Time value) const {
    State out{};
    out[kFree] = value - rest_;
    if constexpr (kCoding == Codec::encode) out[kEncoded] = out[kFree] - spec_.workload.backward_total;
    if constexpr (kCoding == Codec::both) {
      out[kDecoded] = out[kFree];
      out[kEncoded] = out[kCoded] = out[kFree] - spec_.workload.backward_total;
    }
    return out;
  }

  Time bound(const State& state, std::uint32_t cut) const {
    Time coded{};
    Time encoded{};
    if constexpr (kCoding != Codec::none) coded = encoded = state[kEncoded];
    if constexpr (kCoding == Codec::both) coded = state[kCoded];
    const bool ended = cut == count();
    const Time computed = spec_.workload.backward_total + coded + (ended ? Time{} : min_coding_[cut]);
    Time arrived = channel_.bound(state[kFree], encoded, cut);
    if constexpr (kCoding == Codec::both)
      arrived = std::max(arrived, state[kDecoded] + (ended ? Time{} : min_decoding_[cut]));
    Time end = std::max(computed, arrived);
    if (!ended)
      for (const Mix& mix : mixes_)
        end = std::max(end, mix.bound(spec_.workload.backward_total + coded, state[kFree], cut));
    return rest_ + end;
  }

 private:
  static constexpr std::size_t kFree = 0;     ///< when the channel is free
  static constexpr std::size_t kEncoded = 1;  ///< total encoding so far
  static constexpr std::size_t kCoded = 2;    ///< total encoding and decoding so far
  static constexpr std::size_t kDecoded = 3;  ///< when everything so far is decoded, each group as soon as it
                                              ///< has arrived

  /// An iteration that ends when both compute and channel have ended takes at least any weighted mean of the
  /// two. If a transfer that is short on the channel is long in code, the mean is a tighter bound than either
  /// alone.
  struct Mix {
    double coding = 0;      ///< weight of compute in the mean
    std::vector<Time> min;  ///< by cut: weighted mean of coding and channel time from there on

    Time bound(Time computed, Time free, std::uint32_t cut) const {
      return Time(static_cast<std::int64_t>(coding * static_cast<double>(computed.count()) +
                                            (1 - coding) * static_cast<double>(free.count()))) +
             min[cut];
    }
  };

  /// Adds the mean with the greatest bound at the start, and some close to it that serve other prefixes. The
  /// bound is concave in the weight, so ternary search finds the maximum.
  void add_mixes() {
    const auto mix = [&](double share) {
      return Mix{.coding = share, .min = min_mix(spec_, CollectiveKind::all_reduce, share)};
    };
    const auto says = [&](double share) {
      return mix(share).bound(spec_.workload.backward_total, channel_.next_start(0), 0);
    };
    constexpr std::uint32_t kMany = 1000;  // with this many gradients, visiting all pairs takes as long as a
                                           // search
    double from = 0;
    double to = 1;
    for (int look = 0; look < 12 && count() <= kMany; ++look) {
      const double third = (to - from) / 3;
      const bool is_further = says(from + third) < says(to - third);
      (is_further ? from : to) += is_further ? third : -third;
    }
    const double best = (from + to) / 2;
    for (const double share : {best, best - 0.1, best - 0.03, best + 0.03, best + 0.1, 0.25, 0.75})
      if (share > 0 && share < 1) mixes_.push_back(mix(share));
  }

  const IterationSpec& spec_;
  Channel channel_;
  Time rest_{};
  std::vector<Mix> mixes_;
  std::vector<Time> min_coding_;    // by cut: from there on
  std::vector<Time> min_decoding_;  // by cut: from there on
  std::vector<Time> min_encoded_;   // by cut: up to there
};

std::unique_ptr<IterationModel> unslowed(const IterationSpec& spec, bool after_backward) {
  if (any_decodes(spec))
    return std::make_unique<ParetoModel<ChannelProblem<Codec::both>>>(spec, after_backward);
  if (any_encodes(spec))
    return std::make_unique<ParetoModel<ChannelProblem<Codec::encode>>>(spec, after_backward);
  return std::make_unique<ParetoModel<ChannelProblem<Codec::none>>>(spec, after_backward);
}

}  // namespace

std::unique_ptr<IterationModel> channel_model(const IterationSpec& spec, bool after_backward) {
  if (!spec.slows()) return unslowed(spec, after_backward);
  if (any_decodes(spec)) return simulated_model(spec, unslowed(spec, after_backward));
  return slowed_model(spec, after_backward, false);
}

}  // namespace planner
