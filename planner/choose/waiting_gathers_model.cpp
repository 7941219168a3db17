// The model of two phases (dear, zero) in which an all-gather is issued when forward has waited for the one
// before it. Groups are added in backward order, so what has been added is the end of the forward pass. Let A
// be the time from the issue of its first all-gather to the end of forward if compute is there in time, and B
// the time from when compute comes to its layers, if the all-gather is. A group in front of it, with an
// all-gather of G and T of update and compute up to those layers, has been waited for at some time; from then
// on the rest takes K = max(A, T + B), as then the next all-gather is issued. So the new A is G + K and the
// new B is K, and neither falls when A or B grows.

#include <algorithm>
#include <optional>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/model_parts.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

struct WaitingStep {
  std::uint32_t end = 0;
  Time tick{};
  Time scatter{};
  Time gather{};
  Time compute{};  ///< update of the group, and forward up to the layers of the group that comes after it
};

class WaitingProblem {
 public:
  static constexpr std::size_t kStates = 3;
  using State = ParetoState<kStates>;
  using Step = WaitingStep;

  explicit WaitingProblem(const IterationSpec& spec)
      : spec_(spec),
        scatter_(spec, CollectiveKind::reduce_scatter, false),
        compute_(forward_and_updates(spec)) {}

  void prepare_bounds() {
    scatter_.prepare_bounds();
    min_gathering_ = min_channel_time(spec_, CollectiveKind::all_gather);
  }

  std::int64_t slack_counts() const { return 2 + spec_.waited_batches; }  // all phases may be late
  std::uint32_t count() const { return spec_.workload.gradient_count(); }
  std::uint32_t transfers() const { return static_cast<std::uint32_t>(spec_.transfers.size()); }
  static State start() { return {}; }
  static State min(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const {
    return scatter_.longer_costs_more() && planner::longer_costs_more(spec_, CollectiveKind::all_gather);
  }

  Step step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer, Time tick = {}) const {
    const TransferCost& cost = spec_.transfers[transfer];
    const Payload payload = payload_between(spec_.workload, begin, end);
    return {.end = end,
            .tick = tick,
            .scatter = cost.time(CollectiveKind::reduce_scatter, payload),
            .gather = cost.time(CollectiveKind::all_gather, payload),
            .compute = compute_[end] - compute_[begin]};
  }

  State extend(const State& state, const Step& step) const {
    State out{};
    out[kScattered] = scatter_.extend(state[kScattered], {}, step.end, step.tick, step.scatter);
    out[kComputing] = std::max(state[kGathering], step.compute + state[kComputing]);
    out[kGathering] = step.gather + out[kComputing];
    return out;
  }

  State settle(State state, std::uint32_t cut) const {
    if (cut == count()) return state;
    state[kScattered] = std::max(state[kScattered], scatter_.next_start(cut));
    state[kGathering] = std::max(state[kGathering], min_next_compute(cut) + state[kComputing]);
    return state;
  }

  std::optional<State> latest(const State& after, const Step& step) const {
    State out{};
    out[kScattered] = after[kScattered] - step.scatter;
    out[kGathering] = std::min(after[kGathering] - step.gather, after[kComputing]);
    out[kComputing] = out[kGathering] - step.compute;
    if (out[kComputing] < Time::zero() ||
        scatter_.latest_encoding(out[kScattered], step.end, step.tick) < Time::zero())
      return std::nullopt;
    return out;
  }

  /// One phase may gain what the other loses, so the ends of the phases are kept.
  State latest_end(const State& state, Time /*value*/) const { return greatest(phases(state, count())); }

  /// Each phase is as long as the minimum of the other allows.
  State greatest_end(Time value) const { return greatest(phases(start(), 0).longest(spec_, value)); }

  Time bound(const State& state, std::uint32_t cut) const { return phases(state, cut).sum(spec_); }

 private:
  static constexpr std::size_t kScattered = 0;  ///< when the reduce-scatters end
  static constexpr std::size_t kGathering = 1;  ///< A
  static constexpr std::size_t kComputing = 2;  ///< B

  /// Lower bounds of the phases, from a prefix on: each further all-gather comes after the one before, and
  /// so does all compute.
  Phases phases(const State& state, std::uint32_t cut) const {
    Time gathering = state[kGathering];
    if (cut < count())
      gathering = min_gathering_[cut] + std::max(gathering, min_next_compute(cut) + state[kComputing]);
    return {
        .drained = std::max(spec_.workload.backward_total, scatter_.bound(state[kScattered], Time{}, cut)),
        .forward = std::max(all_compute() - compute_[cut] + state[kComputing],
                            spec_.extras.lars_gather + gathering)};
  }

  /// The greatest state whose phases are no longer than these.
  State greatest(const Phases& phases) const {
    State out{};
    out[kScattered] = phases.drained;
    out[kGathering] = phases.forward - spec_.extras.lars_gather;
    out[kComputing] = phases.forward - (all_compute() - compute_[count()]);
    return out;
  }

  /// The time of reading, forward and updates.
  Time all_compute() const { return spec_.extras.read + spec_.workload.forward_total + spec_.extras.update; }
  /// The least compute of the group after `cut`.
  Time min_next_compute(std::uint32_t cut) const { return compute_[cut + 1] - compute_[cut]; }

  const IterationSpec& spec_;
  Channel scatter_;
  std::vector<Time> compute_;        // forward_and_updates()
  std::vector<Time> min_gathering_;  // by cut: from there on
};

}  // namespace

std::unique_ptr<IterationModel> one_gather_ahead_model(const IterationSpec& spec) {
  return std::make_unique<ParetoModel<WaitingProblem>>(spec);
}

}  // namespace planner
