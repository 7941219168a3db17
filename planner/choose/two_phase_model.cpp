// The model of pipelines that split an all-reduce (dear, zero): reduce-scatters, or all-reduces, during
// backward; all-gathers in forward order during the next forward pass, or before it. The state holds the end
// of the reduce-scatters and the time from the first all-gather of the grouped gradients to the end of the
// forward pass (or of gathering and decoding); with coding, also the delay of backward by encoding and the
// total decoding time.

#include <optional>
#include <utility>
#include <vector>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/choose/straight_channels.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

struct TwoPhaseStep {
  std::uint32_t end = 0;
  Time tick{};
  Time encode{};
  Time scatter{};
  Time gather{};
  Time decode{};
};

template <bool kCodes>
class TwoPhaseProblem {
 public:
  static constexpr std::size_t kStates = kCodes ? 4 : 2;
  using State = ParetoState<kStates>;
  using Step = TwoPhaseStep;

  TwoPhaseProblem(const IterationSpec& spec, bool overlap_gather, CollectiveKind reduced)
      : spec_(spec),
        overlap_gather_(overlap_gather),
        reduced_(reduced),
        scatter_(spec, reduced, false),
        compute_(overlap_gather ? forward_and_updates(spec)
                                : std::vector<Time>(spec.workload.gradients.size() + 1)) {}

  void prepare_bounds() {
    scatter_.prepare_bounds();
    min_gathering_ = min_channel_time(spec_, CollectiveKind::all_gather);
    min_encoding_ = min_encoding(spec_);
    min_decoding_ = min_decoding(spec_);
  }

  std::int64_t slack_counts() const { return 2 + spec_.waited_batches; }  // all phases may be late
  std::uint32_t count() const { return spec_.workload.gradient_count(); }
  std::uint32_t transfers() const { return static_cast<std::uint32_t>(spec_.transfers.size()); }
  static State start() { return {}; }
  static State min(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const {
    return scatter_.longer_costs_more() && coding_grows(spec_) &&
           planner::longer_costs_more(spec_, CollectiveKind::all_gather);
  }

  /// The optimum of all groupings where a group costs nothing but curves that never fall; none elsewhere.
  std::optional<OptimalGroups> optimal_at_once() const {
    if constexpr (kCodes) {
      return std::nullopt;
    } else {
      const TransferCost& transfer = spec_.transfers.front();
      const bool is_plain = transfer.workers() == 1 || transfer.transfer().compressor.is_none();
      const bool has_more =
          transfer.transfer().pads_tensors ||
          transfer.frozen_bytes(payload_of_all(spec_.workload)) > 0;  // bytes_before lacks it
      if (transfers() > 1 || !is_plain || has_more || !longer_costs_more()) return {};
      const auto channel = [&](CollectiveKind kind, std::vector<Time> ready) {
        return StraightChannel{.ready = std::move(ready),
                               .bytes_before = spec_.workload.bytes_before,
                               .curve = transfer.costs_of(kind).of(kind).curve,
                               .wire = transfer.wire_bytes(kind, 1)};
      };
      const auto at_end = [this](const State& state) { return phases(state, count()); };
      const TwoChannels both = {
          .channels = {channel(reduced_, scatter_.ready()),
                       channel(CollectiveKind::all_gather, {compute_.begin() + 1, compute_.end()})},
          .value = [&](const State& ends) { return at_end(ends).sum(spec_); },
          .latest = [&](const State& earliest,
                        Time value) { return greatest(at_end(earliest).longest(spec_, value)); },
          .as_good = [&](const State& ends) { return greatest(at_end(ends)); }};
      return optimal_groups(both, max_kept(count(), transfers()));
    }
  }

  Step step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer, Time tick = {}) const {
    const TransferCost& cost = spec_.transfers[transfer];
    const Payload payload = payload_between(spec_.workload, begin, end);
    const GroupCost scattered = cost.cost(reduced_, payload);
    return {.end = end,
            .tick = tick,
            .encode = scattered.encode,
            .scatter = scattered.channel,
            .gather = cost.time(CollectiveKind::all_gather, payload),
            .decode = scattered.decode};
  }

  State extend(const State& state, const Step& step) const {
    State out{};
    Time encoded{};
    Time decoded{};
    if constexpr (kCodes) {
      encoded = out[kEncoded] = state[kEncoded] + step.encode;
      decoded = out[kDecoding] = state[kDecoding] + step.decode;
    }
    out[kScattered] = scatter_.extend(state[kScattered], encoded, step.end, step.tick, step.scatter);
    out[kGathering] = step.gather + std::max(state[kGathering], compute_[step.end] + decoded);
    return out;
  }

  State settle(State state, std::uint32_t cut) const {
    if (cut == count()) return state;
    Time encoded{};
    Time decoded{};
    if constexpr (kCodes) {
      encoded = state[kEncoded];
      decoded = state[kDecoding];
    }
    state[kScattered] = std::max(state[kScattered], scatter_.next_start(cut) + encoded);
    state[kGathering] = std::max(state[kGathering], compute_[cut + 1] + decoded);
    return state;
  }

  std::optional<State> latest(const State& after, const Step& step) const {
    State out{};
    out[kScattered] = after[kScattered] - step.scatter;
    out[kGathering] = after[kGathering] - step.gather;
    const Time encoded = scatter_.latest_encoding(out[kScattered], step.end, step.tick);
    const Time decoded = out[kGathering] - compute_[step.end];
    if constexpr (kCodes) {
      out[kEncoded] = std::min(after[kEncoded], encoded) - step.encode;
      out[kDecoding] = std::min(after[kDecoding], decoded) - step.decode;
    } else if (encoded < Time::zero() || decoded < Time::zero()) {
      return std::nullopt;
    }
    return out;
  }

  /// One phase may gain what the other loses, so the ends of the phases are kept.
  State latest_end(const State& state, Time /*value*/) const { return greatest(phases(state, count())); }

  /// Each phase is as long as the minimum of the other allows.
  State greatest_end(Time value) const { return greatest(phases(start(), 0).longest(spec_, value)); }

  Time bound(const State& state, std::uint32_t cut) const { return phases(state, cut).sum(spec_); }

 private:
  static constexpr std::size_t kScattered = 0;
  static constexpr std::size_t kGathering = 1;
  static constexpr std::size_t kEncoded = 2;
  static constexpr std::size_t kDecoding = 3;

  /// Lower bounds of the phases, from a prefix on.
  Phases phases(const State& state, std::uint32_t cut) const {
    Time encoded{};
    Time decoding{};
    if constexpr (kCodes) {
      encoded = state[kEncoded];
      decoding = state[kDecoding];
    }
    Time computed = spec_.workload.backward_total + encoded;
    Time gathering = state[kGathering];
    if (cut < count()) {
      computed += min_encoding_[cut];
      gathering = min_gathering_[cut] + std::max(gathering, compute_[cut + 1] + decoding);
      decoding += min_decoding_[cut];
    }
    const Time scattered = scatter_.bound(state[kScattered], encoded, cut);
    const Time gathered = spec_.extras.lars_gather + gathering;
    return {.drained = std::max(computed, scattered),
            .forward = overlap_gather_ ? std::max(compute() + decoding, gathered) : compute() + gathered};
  }

  /// The greatest state whose phases are no longer than these.
  State greatest(const Phases& phases) const {
    const Time gathering = phases.forward - spec_.extras.lars_gather;
    State out{};
    out[kScattered] = phases.drained;
    out[kGathering] = overlap_gather_ ? gathering : gathering - compute();
    if constexpr (kCodes) {
      out[kEncoded] = phases.drained - spec_.workload.backward_total;
      // without overlap all decoding lies within gathering
      out[kDecoding] = overlap_gather_ ? phases.forward - compute() : out[kGathering];
    }
    return out;
  }

  /// The time of reading, forward and updates.
  Time compute() const { return spec_.extras.read + spec_.workload.forward_total + spec_.extras.update; }

  const IterationSpec& spec_;
  bool overlap_gather_;
  CollectiveKind reduced_;
  Channel scatter_;
  std::vector<Time> compute_;        // forward_and_updates()
  std::vector<Time> min_gathering_;  // by cut: from there on
  std::vector<Time> min_encoding_;   // by cut: from there on
  std::vector<Time> min_decoding_;   // by cut: from there on
};

std::unique_ptr<IterationModel> unslowed(const IterationSpec& spec, bool overlap_gather,
                                         CollectiveKind reduced) {
  if (any_encodes(spec) || any_decodes(spec))
    return std::make_unique<ParetoModel<TwoPhaseProblem<true>>>(spec, overlap_gather, reduced);
  return std::make_unique<ParetoModel<TwoPhaseProblem<false>>>(spec, overlap_gather, reduced);
}

}  // namespace

std::unique_ptr<IterationModel> two_phase_model(const IterationSpec& spec, bool overlap_gather,
                                                CollectiveKind reduced) {
  if (!spec.slows()) return unslowed(spec, overlap_gather, reduced);
  if (overlap_gather || any_decodes(spec) || spec.waited_batches > 0 || reduced == CollectiveKind::all_reduce)
    return simulated_model(spec, unslowed(spec, overlap_gather, reduced));
  return slowed_model(spec, false, true);
}

std::unique_ptr<IterationModel> waiting_gathers_model(const IterationSpec& spec) {
  const bool is_exact =
      spec.program(1).prefetch == 1U && !spec.slows() && !any_encodes(spec) && !any_decodes(spec);
  return is_exact ? one_gather_ahead_model(spec)
                  : simulated_model(spec, unslowed(spec, true, CollectiveKind::reduce_scatter));
}

}  // namespace planner
