#include "planner/advise/memory_bound.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/choose/bounds.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// A beginning of a plan, in backward order. Less is better in everything but `next_gathered`.
struct State {
  Time forward{};                         ///< of the passes of its layers, or all gathers if none runs ahead
  Time reduced{};                         ///< when its reduce-scatters have ended, since backward began
  Time reducing{};                        ///< all reduce-scatters
  Time gathering{};                       ///< all gathers of the backward pass
  Time delay{};                           ///< of compute by gathers in the backward pass
  std::int64_t next_gathered = kNoLimit;  ///< the most that the next group may gather
  std::uint32_t previous_begin = 0;       ///< of the group before the last one
  bool previous_kept = false;
  std::uint32_t previous_state = 0;

  bool beats(const State& other) const {
    return forward <= other.forward && reduced <= other.reduced && reducing <= other.reducing &&
           gathering <= other.gathering && delay <= other.delay && next_gathered >= other.next_gathered;
  }
  /// Is then as good as both.
  void join(const State& other) {
    forward = std::min(forward, other.forward);
    reduced = std::min(reduced, other.reduced);
    reducing = std::min(reducing, other.reducing);
    gathering = std::min(gathering, other.gathering);
    delay = std::min(delay, other.delay);
    next_gathered = std::max(next_gathered, other.next_gathered);
  }
};

/// What activations take, as the profile says; nothing if it does not say so of all layers.
struct Activations {
  std::vector<std::int64_t> until;  ///< by number of layers n: in the passes of layer n - 1
  std::vector<std::int64_t> kept;  ///< by number of layers n: before layer n runs, or after its backward pass

  explicit Activations(const Setting& setting)
      : until(setting.workload.forward.size() + 1), kept(setting.workload.forward.size() + 1) {
    const std::vector<core::ProfileLayer>& layers = setting.workload.profile->layers;
    for (const core::ProfileLayer& layer : layers)
      if (!layer.activation_bytes) return;
    std::vector<std::uint32_t> first(layers.size());  // of the layer's segment
    std::iota(first.begin(), first.end(), 0U);
    if (setting.conditions.recompute)
      for (const Segment& segment : segments_of(*setting.workload.profile, *setting.conditions.recompute))
        std::fill(first.begin() + segment.first, first.begin() + segment.last + 1, segment.first);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      until[i + 1] = (first[i] == i ? kept[i] : until[i]) + *layers[i].activation_bytes;
      const bool ends = i + 1 == layers.size() || first[i + 1] == i + 1;
      kept[i + 1] = ends ? kept[first[i]] + *layers[i].activation_bytes : until[i + 1];
    }
  }
};

/// What activations take in the first backward step from a layer on that takes time, by layer; 0 if none
/// does.
std::vector<std::int64_t> in_next_steps(const Workload& workload, const Activations& activations) {
  std::vector<std::int64_t> out(workload.forward.size());
  for (const BackwardStep& step : workload.backward)
    if (step.duration > Time::zero()) out[step.layer] = activations.until[step.layer + 1];
  for (std::size_t layer = 1; layer < out.size(); ++layer)
    if (out[layer] == 0) out[layer] = out[layer - 1];
  return out;
}

using Front = std::vector<State>;

void keep(Front& front, const State& state) {
  constexpr std::size_t kMax = 24;
  for (const State& known : front)
    if (known.beats(state)) return;
  std::erase_if(front, [&](const State& known) { return state.beats(known); });
  if (front.size() < kMax)
    front.push_back(state);
  else
    front.back().join(state);
}

}  // namespace

MemoryBound::MemoryBound(const Setting& setting, const TransferCost& transfer, const Groups& units,
                         const PipelineOptions& options)
    : setting_(setting),
      units_(units.size() + 1),
      ranges_(units.size() * units.size()),
      accumulates_(setting.conditions.accumulation_steps > 1),
      keeps_last_(options.keeps_last_group),
      is_early_(options.gathers_early),
      keeps_parameters_(!options.reshard_after_backward),
      is_steady_(!setting.conditions.overlap.slows()) {
  const Workload& workload = setting.workload;
  const Activations activations(setting);
  for (std::size_t layer = 0; layer < workload.forward.size(); ++layer)
    if (workload.forward[layer] > Time::zero()) all_activations_ = activations.until[layer + 1];
  std::vector<Time> step_starts = {Time::zero()};
  std::vector<std::uint32_t> first_step(workload.forward.size());
  for (const BackwardStep& step : workload.backward)
    step_starts.push_back(step_starts.back() + step.duration);
  for (auto step = static_cast<std::uint32_t>(workload.backward.size()); step-- > 0;)
    first_step[workload.backward[step].layer] = step;
  const std::vector<std::int64_t> in_next_step = in_next_steps(workload, activations);

  GroupMemory before;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Group& group = units[i];
    const Gradient& first = workload.gradients[group.begin];
    const Gradient& last = workload.gradients[group.end - 1];
    Unit& unit = units_[i];
    unit.starts = step_starts[first_step[first.layer]];
    unit.ready = last.ready;
    unit.forward_from = forward_from(workload, last.layer);
    unit.activations_in_forward = activations.until[first.layer + 1];
    unit.ends_in_time = workload.backward[last.backward_step].duration > Time::zero();
    unit.activations_at_end =
        unit.ends_in_time ? activations.until[last.layer + 1] : activations.kept[last.layer];
    unit.is_forward_in_time = workload.forward[first.layer] > Time::zero();
    unit.begins_in_time = workload.backward[first.backward_step].duration > Time::zero();
    unit.activations = in_next_step[first.layer];
    unit.before = before;
    for (std::uint32_t gradient = group.begin; gradient < group.end; ++gradient) {
      const Group so_far = {.begin = group.begin, .end = gradient + 1};
      const std::int64_t gradients = group_memory(setting, transfer, so_far).gradients;
      const Gradient& yielded = workload.gradients[gradient];
      if (workload.backward[yielded.backward_step].duration == Time::zero()) continue;
      if (yielded.backward_step == first.backward_step) unit.first_gradients = gradients;
      unit.within = std::max(unit.within, gradients + activations.until[yielded.layer + 1]);
    }
    const GroupMemory own = group_memory(setting, transfer, group);
    before.gathered += own.gathered;
    before.gradients += own.gradients;
  }
  units_.back().before = before;
  const auto profile_bytes = core::bytes_per_element(workload.profile->dtype);
  const std::int64_t elements = transfer.padded_bytes(payload_of_all(workload)) / profile_bytes;
  lasting_ = lasting_bytes(setting, (elements + transfer.workers() - 1) / transfer.workers());
  const std::int64_t parameter_bytes =
      core::bytes_per_element(setting.conditions.data_types.parameters.value_or(workload.profile->dtype));
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::uint32_t begin = i < units.size() ? units[i].begin : workload.gradient_count();
    units_[i].before.share = transfer.padded_bytes(payload_between(workload, 0, begin)) / profile_bytes /
                             transfer.workers() * parameter_bytes;
  }

  for (std::size_t begin = 0; begin < units.size(); ++begin) {
    std::int64_t within = 0;
    for (std::size_t end = begin + 1; end <= units.size(); ++end) {
      const Group group = {.begin = units[begin].begin, .end = units[end - 1].end};
      const Payload payload = payload_of(workload, group);
      Range& own = ranges_[begin * units.size() + end - 1];
      own.memory = group_memory(setting, transfer, group);
      own.gather = transfer.time(CollectiveKind::all_gather, payload);
      own.reduce = transfer.time(CollectiveKind::reduce_scatter, payload);
      const std::int64_t so_far = units_[end - 1].before.gradients - units_[begin].before.gradients;
      if (units_[end - 1].within > 0) within = std::max(within, so_far + units_[end - 1].within);
      if (within == 0) continue;  // its backward pass takes no time
      // with several micro-batches all gradients are there from the first one on
      own.in_backward = own.memory.gathered + units_[begin].before.share +
                        (accumulates_ ? units_.back().before.gradients - units_[begin].before.gradients +
                                            units_[begin].activations
                                      : within);
    }
    least_memory_ = std::max(least_memory_, lasting_ + range(begin, begin + 1).in_backward);
  }
}

/// One way of gathering ahead, within one cap.
class MemoryBound::Search {
 public:
  Search(const MemoryBound& bound, std::int64_t memory, bool ahead, bool ahead_in_backward)
      : bound_(bound),
        memory_(memory - bound.lasting_),
        ahead_(ahead),
        ahead_in_backward_(ahead_in_backward),
        count_(bound.units_.size() - 1),
        fronts_(2 * count_ * count_) {}

  std::optional<RelaxedPlan> run() {
    for (std::size_t begin = 0; begin < count_; ++begin)
      for (std::size_t end = begin + 1; end <= count_; ++end) {
        if (range(begin, end).in_backward > memory_) break;  // and so does what is longer
        for (const bool is_kept : {false, true}) extend(begin, end, is_kept);
      }
    return best();
  }

 private:
  const Range& range(std::size_t begin, std::size_t end) const { return bound_.range(begin, end); }
  const Unit& unit(std::size_t i) const { return bound_.units_[i]; }
  Front& front(std::size_t begin, std::size_t end, bool is_kept) {
    return fronts_[(is_kept ? count_ * count_ : 0) + begin * count_ + end - 1];
  }

  /// Gradients that earlier micro-batches left in the units from this one on.
  std::int64_t accumulated(std::size_t from) const {
    return bound_.accumulates_ ? unit(count_).before.gradients - unit(from).before.gradients : 0;
  }

  void extend(std::size_t begin, std::size_t end, bool is_kept) {
    Front& out = front(begin, end, is_kept);
    if (begin == 0) {
      State state;
      if (ahead_in_backward_ && bound_.is_early_)
        state.gathering = bound_.accumulates_ && bound_.keeps_parameters_
                              ? -bound_.setting_.workload.forward_total
                              : -unit(end - 1).forward_from;
      if (ahead_in_backward_ && unit(end - 1).ready > unit(begin).starts)
        state.next_gathered = memory_ - range(begin, end).in_backward;
      add(state, begin, end, is_kept);
      out.push_back(state);
      return;
    }
    for (std::size_t previous = 0; previous < begin; ++previous)
      for (const bool was_kept : {false, true}) {
        if (is_kept && !was_kept) continue;
        if (was_kept && !is_kept && !holds_kept(begin)) continue;
        const Front& from = front(previous, begin, was_kept);
        if (from.empty()) continue;
        std::int64_t next_gathered = kNoLimit;
        if (!fits(previous, begin, end, is_kept, next_gathered)) continue;
        for (std::uint32_t i = 0; i < from.size(); ++i) {
          State state = from[i];
          if (!is_kept && range(begin, end).memory.gathered > state.next_gathered) continue;
          state.next_gathered = next_gathered;
          state.previous_begin = static_cast<std::uint32_t>(previous);
          state.previous_kept = was_kept;
          state.previous_state = i;
          add(state, begin, end, is_kept);
          keep(out, state);
        }
      }
  }

  void add(State& state, std::size_t begin, std::size_t end, bool is_kept) const {
    const Range& own = range(begin, end);
    state.forward = ahead_ ? own.gather + std::max(unit(end - 1).forward_from, state.forward)
                           : own.gather + state.forward;
    if (!is_kept && !(bound_.keeps_last_ && end == count_)) {
      const Time starts = unit(begin).starts;
      state.gathering += own.gather;
      state.delay = ahead_in_backward_ ? std::max(state.delay, state.gathering - starts)
                                       : std::max(state.delay, state.reduced - starts) + own.gather;
    }
    state.reducing += own.reduce;
    state.reduced = std::max(state.reduced, unit(end - 1).ready + state.delay) + own.reduce;
  }

  /// Whether the memory is enough between forward and backward, when all that is kept up to this unit is
  /// there.
  bool holds_kept(std::size_t end) const {
    const std::int64_t at_end =
        bound_.all_activations_ + (bound_.accumulates_ ? unit(count_).before.gradients : 0);
    const std::int64_t in_first_step =
        unit(0).begins_in_time ? unit(0).activations + unit(0).first_gradients : 0;
    return unit(end).before.gathered + std::max(at_end, in_first_step) <= memory_;
  }

  /// Whether the group fits after the previous one; limits what the next one may gather.
  bool fits(std::size_t previous, std::size_t begin, std::size_t end, bool is_kept,
            std::int64_t& next_gathered) const {
    const Range& before = range(previous, begin);
    const Range& own = range(begin, end);
    if (ahead_ && unit(begin).is_forward_in_time &&
        own.memory.gathered + before.memory.gathered + unit(begin).activations_in_forward +
                (bound_.accumulates_ ? unit(count_).before.gradients : 0) >
            memory_)
      return false;
    if (!ahead_in_backward_ && !is_kept) return true;
    // the reduce-scatter of the previous group does not begin before its last gradient is ready, nor before
    // this group is gathered
    const Time since_ready = unit(begin).starts - unit(begin - 1).ready;
    const std::int64_t held = before.memory.sent + own.memory.gathered + unit(previous).before.share;
    if (own.in_backward > 0 &&
        (bound_.is_steady_ ? before.reduce > since_ready : since_ready == Time::zero()) &&
        held + (bound_.accumulates_ ? accumulated(begin) : unit(begin).first_gradients) +
                unit(begin).activations >
            memory_)
      return false;
    if (is_kept || !unit(end - 1).ends_in_time) return true;
    const std::int64_t at_end = own.memory.gathered + own.memory.gradients + unit(previous).before.share +
                                unit(end - 1).activations_at_end + accumulated(end);
    if (at_end + before.memory.sent <= memory_) return true;
    if (bound_.is_steady_ && before.reduce > unit(end - 1).ready - unit(begin - 1).ready) return false;
    next_gathered = memory_ - at_end;  // it is gathered by then, or the reduce-scatter has not ended
    return true;
  }

  std::optional<RelaxedPlan> best() {
    std::optional<RelaxedPlan> out;
    std::array<std::size_t, 3> at{};
    for (std::size_t begin = 0; begin < count_; ++begin)
      for (const bool is_kept : {false, true}) {
        if (is_kept && !holds_kept(count_)) continue;
        const Front& states = front(begin, count_, is_kept);
        for (std::size_t i = 0; i < states.size(); ++i) {
          const Time time = iteration(states[i]);
          if (out && out->time <= time) continue;
          out.emplace().time = time;
          at = {begin, is_kept, i};
        }
      }
    if (out) trace(*out, at[0], at[1] == 1, at[2]);
    return out;
  }

  Time iteration(const State& state) const {
    const Workload& workload = bound_.setting_.workload;
    const std::int64_t batches = bound_.setting_.conditions.accumulation_steps;
    const Extras& extras = bound_.setting_.extras;
    const Time forward =
        ahead_ ? std::max(workload.forward_total, state.forward) : workload.forward_total + state.forward;
    const Time backward =
        std::max({state.reduced, state.gathering + state.reducing, workload.backward_total + state.delay});
    const Time earlier = ahead_in_backward_ ? std::max(workload.backward_total, state.gathering)
                                            : workload.backward_total + state.gathering;
    return extras.read + batches * forward + (batches - 1) * earlier + backward + extras.lars +
           extras.lars_gather + extras.update;
  }

  void trace(RelaxedPlan& out, std::size_t begin, bool is_kept, std::size_t state) {
    out.gathers_ahead = ahead_;
    out.gathers_ahead_in_backward = ahead_in_backward_;
    for (std::size_t end = count_;;) {
      out.units.insert(out.units.begin(), static_cast<std::uint32_t>(end - begin));
      if (is_kept) ++out.kept;
      if (begin == 0) return;
      const State& at = front(begin, end, is_kept)[state];
      end = begin;
      begin = at.previous_begin;
      is_kept = at.previous_kept;
      state = at.previous_state;
    }
  }

  const MemoryBound& bound_;
  std::int64_t memory_;  // without what lasts
  bool ahead_;
  bool ahead_in_backward_;
  std::size_t count_;
  std::vector<Front> fronts_;
};

std::vector<RelaxedPlan> MemoryBound::best(std::int64_t memory) const {
  std::vector<RelaxedPlan> out;
  for (const bool ahead : {true, false})
    for (const bool ahead_in_backward : {true, false})
      if (std::optional<RelaxedPlan> found = Search(*this, memory, ahead, ahead_in_backward).run())
        out.push_back(std::move(*found));
  return out;
}

std::optional<Time> MemoryBound::least_channel_time(std::int64_t memory) const {
  const std::size_t count = units_.size() - 1;
  const std::int64_t batches = setting_.conditions.accumulation_steps;
  std::vector<Time> least(count + 1, Time::max());  // by number of units
  least[0] = Time::zero();
  for (std::size_t begin = 0; begin < count; ++begin) {
    if (least[begin] == Time::max()) continue;
    for (std::size_t end = begin + 1; end <= count; ++end) {
      const Range& own = range(begin, end);
      if (lasting_ + own.in_backward > memory) break;  // and so does what is longer
      least[end] = std::min(least[end], least[begin] + batches * own.gather + own.reduce);
    }
  }
  if (least[count] == Time::max()) return {};
  const Extras& extras = setting_.extras;
  return extras.read + least[count] + extras.lars + extras.lars_gather + extras.update;
}

}  // namespace planner
