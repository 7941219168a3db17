// Overlap slow-down: compute is slower while the channel is busy, and vice versa. The state holds when
// compute has finished the gradients so far, the work then left on the channel, and, if all-gathers come
// after everything else, their total time.

#include <cmath>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/choose/simulate_iteration.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

struct SlowedStep {
  Time compute{};  ///< at full speed, including encoding
  Time channel{};  ///< at full speed
  Time gather{};
};

class SlowedProblem {
 public:
  static constexpr std::size_t kStates = 3;
  using State = ParetoState<kStates>;
  using Step = SlowedStep;

  SlowedProblem(const IterationSpec& spec, bool after_backward, bool separate_gathers)
      : spec_(spec),
        kind_(separate_gathers ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce),
        separate_gathers_(separate_gathers),
        after_backward_(after_backward),
        ready_(ready_times(spec.workload, after_backward)) {
    const Extras& extras = spec.extras;
    rest_ = extras.read + spec.workload.forward_total + extras.lars + extras.lars_gather + extras.update;
  }

  void prepare_bounds() {
    min_channel_ = min_channel_time(spec_, kind_);
    min_encoding_ = min_encoding(spec_);
    min_gathering_ = separate_gathers_ ? min_channel_time(spec_, CollectiveKind::all_gather)
                                       : std::vector<Time>(min_channel_.size());
    latest_.resize(min_channel_.size());
    const bool grows = planner::longer_costs_more(spec_, kind_);
    for (std::size_t n = ready_.size(); n-- > 0;)
      latest_[n] = grows ? std::max(latest_[n + 1], ready_[n] + min_channel_[n]) : Time::zero();
  }

  std::uint32_t count() const { return spec_.workload.gradient_count(); }
  std::uint32_t transfers() const { return static_cast<std::uint32_t>(spec_.transfers.size()); }
  State start() const { return {after_backward_ ? spec_.workload.backward_total : Time{}}; }
  State min(std::uint32_t cut) const { return {ready_at(cut)}; }
  static bool longer_costs_more() {
    return false;
  }  // a longer group leaves compute without interference for
     // longer

  Step step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer, Time /*tick*/ = {}) const {
    const TransferCost& cost = spec_.transfers[transfer];
    const Payload payload = payload_between(spec_.workload, begin, end);
    return {.compute = ready_at(end) - ready_at(begin) + cost.encode(payload),
            .channel = cost.time(kind_, payload),
            .gather = separate_gathers_ ? cost.time(CollectiveKind::all_gather, payload) : Time{}};
  }

  State extend(const State& state, const Step& step) const {
    State out = compute(state, step.compute);
    out[kLeft] += step.channel;
    out[kGathering] += step.gather;
    return out;
  }

  Time bound(const State& state, std::uint32_t cut) const {
    if (cut == count()) {
      const State end = compute(state, spec_.workload.backward_total - ready_at(cut));
      return rest_ + end[kComputed] + end[kLeft] + end[kGathering];
    }
    const Time late = state[kComputed] - ready_at(cut);  // delay relative to full speed
    const Time computed = spec_.workload.backward_total + late + min_encoding_[cut];
    const Time communicated = state[kComputed] + state[kLeft] + min_channel_[cut];
    return rest_ + std::max({computed, communicated, latest_[cut] + late}) + state[kGathering] +
           min_gathering_[cut];
  }

 private:
  static constexpr std::size_t kComputed = 0;
  static constexpr std::size_t kLeft = 1;
  static constexpr std::size_t kGathering = 2;

  Time ready_at(std::uint32_t cut) const {
    if (cut == 0) return after_backward_ ? spec_.workload.backward_total : Time{};
    return ready_[cut - 1];
  }

  /// The state after this compute, concurrent with the remaining work on the channel.
  State compute(const State& state, Time work) const {
    const double slow = 1 + spec_.overlap.compute_slowdown;
    const double channel_slow = 1 + spec_.overlap.communication_slowdown;
    const auto rounded = [](double count) { return Time(std::llround(count)); };
    const double all = static_cast<double>(work.count()) * slow;  // if the channel is busy throughout
    const double drained = static_cast<double>(state[kLeft].count()) * channel_slow;
    State out = state;
    if (all <= drained) {
      out[kComputed] += rounded(all);
      out[kLeft] = std::max(Time::zero(), state[kLeft] - rounded(all / channel_slow));
    } else {
      out[kComputed] += rounded(drained + (static_cast<double>(work.count()) - drained / slow));
      out[kLeft] = Time::zero();
    }
    return out;
  }

  const IterationSpec& spec_;
  CollectiveKind kind_;
  bool separate_gathers_;
  bool after_backward_;
  std::vector<Time> ready_;
  Time rest_{};
  std::vector<Time> min_channel_;  // by cut: from there on; the next members likewise
  std::vector<Time> min_encoding_;
  std::vector<Time> min_gathering_;
  std::vector<Time> latest_;  // end of the groups from a cut on if compute is on time
};

/// Waiting for a tick leaves the channel idle although work is pending, which the states do not represent.
class SlowedModel final : public IterationModel {
 public:
  SlowedModel(const IterationSpec& spec, bool after_backward, bool separate_gathers)
      : spec_(spec), without_ticks_(spec, after_backward, separate_gathers) {}

  Time value(const Groups& groups) const override {
    const bool has_ticks = std::ranges::any_of(groups, [](const Group& g) { return g.tick > Time::zero(); });
    return has_ticks ? simulate_iteration(spec_, groups) : without_ticks_.value(groups);
  }
  Time lower_bound() const override { return without_ticks_.lower_bound(); }
  OptimalGroups optimal(const GroupRules& rules) const override { return without_ticks_.optimal(rules); }

 private:
  const IterationSpec& spec_;
  ParetoModel<SlowedProblem> without_ticks_;
};

}  // namespace

std::unique_ptr<IterationModel> slowed_model(const IterationSpec& spec, bool after_backward,
                                             bool separate_gathers) {
  return std::make_unique<SlowedModel>(spec, after_backward, separate_gathers);
}

}  // namespace planner
