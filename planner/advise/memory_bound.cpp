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
  Time summed{};                          ///< when its all-reduces between groups of workers have ended
  Time gathering{};                       ///< all gathers of the backward pass
  Time delay{};                           ///< of compute by gathers in the backward pass
  std::int64_t before_last = 0;           ///< what the group before the last one gathers
  std::int64_t next_gathered = kNoLimit;  ///< the most that the next group may gather
  std::uint32_t previous_begin = 0;       ///< of the group before the last one
  bool previous_kept = false;
  std::uint32_t previous_state = 0;

  bool beats(const State& other) const {
    return forward <= other.forward && reduced <= other.reduced && reducing <= other.reducing &&
           summed <= other.summed && gathering <= other.gathering && delay <= other.delay &&
           before_last <= other.before_last && next_gathered >= other.next_gathered;
  }
  /// Is then as good as both.
  void join(const State& other) {
    forward = std::min(forward, other.forward);
    reduced = std::min(reduced, other.reduced);
    reducing = std::min(reducing, other.reducing);
    summed = std::min(summed, other.summed);
    gathering = std::min(gathering, other.gathering);
    delay = std::min(delay, other.delay);
    before_last = std::min(before_last, other.before_last);
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

void keep(Front& front, const State& state, std::size_t max_states) {
  for (const State& known : front)
    if (known.beats(state)) return;
  std::erase_if(front, [&](const State& known) { return state.beats(known); });
  if (front.size() < max_states)
    front.push_back(state);
  else
    front.back().join(state);
}

}  // namespace

/// Fills in the units and their ranges.
class MemoryBound::Builder {
 public:
  Builder(MemoryBound& out, const TransferCost& transfer, const Groups& units)
      : out_(out),
        workload_(out.setting_.workload),
        transfer_(transfer),
        units_(units),
        activations_(out.setting_),
        in_next_step_(in_next_steps(workload_, activations_)),
        step_starts_({Time::zero()}),
        first_step_(workload_.forward.size()) {
    for (const BackwardStep& step : workload_.backward)
      step_starts_.push_back(step_starts_.back() + step.duration);
    for (auto step = static_cast<std::uint32_t>(workload_.backward.size()); step-- > 0;)
      first_step_[workload_.backward[step].layer] = step;
  }

  void run() {
    for (std::size_t i = 0; i < units_.size(); ++i) add_unit(i);
    add_sums();
    add_what_lasts();
    for (std::size_t begin = 0; begin < units_.size(); ++begin) add_ranges(begin);
  }

 private:
  bool takes_time(std::uint32_t step) const { return workload_.backward[step].duration > Time::zero(); }
  std::int64_t activations_in(std::size_t step) const {
    return activations_.until[workload_.backward[step].layer + 1];
  }

  void add_unit(std::size_t i) {
    const Group& group = units_[i];
    const Gradient& first = workload_.gradients[group.begin];
    const Gradient& last = workload_.gradients[group.end - 1];
    Unit& unit = out_.units_[i];
    unit.starts = step_starts_[first_step_[first.layer]];
    unit.ready = last.ready;
    unit.forward_from = forward_from(workload_, last.layer);
    unit.forward_after = forward_from(workload_, first.layer + 1);
    unit.activations_in_forward = activations_.until[first.layer + 1];
    unit.ends_in_time = takes_time(last.backward_step);
    unit.activations_at_end =
        unit.ends_in_time ? activations_.until[last.layer + 1] : activations_.kept[last.layer];
    unit.is_forward_in_time = workload_.forward[first.layer] > Time::zero();
    unit.begins_in_time = takes_time(first.backward_step);
    unit.activations = in_next_step_[first.layer];
    for (std::uint32_t gradient = group.begin; gradient < group.end; ++gradient) {
      const Gradient& yielded = workload_.gradients[gradient];
      if (!takes_time(yielded.backward_step)) continue;
      const std::int64_t so_far =
          group_memory(out_.setting_, transfer_, {.begin = group.begin, .end = gradient + 1}).gradients;
      if (yielded.backward_step == first.backward_step) unit.first_gradients = so_far;
      unit.within = std::max(unit.within, so_far + activations_.until[yielded.layer + 1]);
      unit.activations_within = std::max(unit.activations_within, activations_.until[yielded.layer + 1]);
    }
    const auto next_unit = i + 1 < units_.size() ? first_step_[workload_.gradients[units_[i + 1].begin].layer]
                                                 : static_cast<std::uint32_t>(workload_.backward.size());
    for (std::uint32_t step = last.backward_step + 1; step < next_unit; ++step)
      if (takes_time(step)) {
        unit.activations_after = activations_in(step);
        break;
      }
  }

  /// What the units before each one take.
  void add_sums() {
    const auto profile_bytes = core::bytes_per_element(workload_.profile->dtype);
    const std::int64_t parameter_bytes = core::bytes_per_element(
        out_.setting_.conditions.data_types.parameters.value_or(workload_.profile->dtype));
    GroupMemory before;
    for (std::size_t i = 0; i < out_.units_.size(); ++i) {
      const bool is_end = i == units_.size();
      const std::uint32_t begin = is_end ? workload_.gradient_count() : units_[i].begin;
      before.share = transfer_.padded_bytes(payload_between(workload_, 0, begin)) / profile_bytes /
                     transfer_.workers() * parameter_bytes;
      out_.units_[i].before = before;
      if (is_end) break;
      const GroupMemory own = group_memory(out_.setting_, transfer_, units_[i]);
      before.gathered += own.gathered;
      before.gradients += own.gradients;
    }
  }

  void add_what_lasts() {
    const std::int64_t elements =
        transfer_.padded_bytes(payload_of_all(workload_)) / core::bytes_per_element(workload_.profile->dtype);
    out_.lasting_ = lasting_bytes(out_.setting_, (elements + transfer_.workers() - 1) / transfer_.workers());
    for (std::size_t layer = 0; layer < workload_.forward.size(); ++layer)
      if (workload_.forward[layer] > Time::zero()) out_.between_passes_ = activations_.until[layer + 1];
    out_.between_passes_ += out_.accumulated(0);
    if (!out_.keeps_last_) return;
    out_.last_kept_ = group_memory(out_.setting_, transfer_, units_.back()).gathered;
    out_.keeps_last_between_ = out_.units_[units_.size() - 1].forward_from > Time::zero();
    if (out_.keeps_last_between_) out_.least_memory_ = out_.lasting_ + out_.between_passes_ + out_.last_kept_;
  }

  void add_ranges(std::size_t begin) {
    std::int64_t most_within = 0;
    bool takes_time = false;
    for (std::size_t end = begin + 1; end <= units_.size(); ++end) {
      const Payload payload = payload_between(workload_, units_[begin].begin, units_[end - 1].end);
      Range& own = out_.ranges_[begin * units_.size() + end - 1];
      own.memory =
          group_memory(out_.setting_, transfer_, {.begin = units_[begin].begin, .end = units_[end - 1].end});
      own.gather = transfer_.time(CollectiveKind::all_gather, payload);
      own.reduce = transfer_.time(CollectiveKind::reduce_scatter, payload);
      if (transfer_.is_replicated()) own.sum = transfer_.time(CollectiveKind::all_reduce, payload);
      if (end < units_.size()) own.beside = out_.last_kept_;
      const Unit& last = out_.units_[end - 1];
      if (last.within > 0)
        most_within = std::max(
            most_within, out_.accumulates_ ? last.activations_within : last.before.gradients + last.within);
      own.most_within = most_within;
      takes_time = takes_time || last.within > 0;
      add_memory(own, begin, end, takes_time);
      if (end < units_.size()) add_reduced(own, end);
    }
    out_.least_memory_ =
        std::max(out_.least_memory_, out_.lasting_ + out_.range(begin, begin + 1).in_backward);
  }

  void add_memory(Range& own, std::size_t begin, std::size_t end, bool takes_time) const {
    const Unit& first = out_.units_[begin];
    const std::int64_t held = own.beside + first.before.share;
    if (takes_time)
      own.in_backward = held + own.memory.gathered +
                        // with several micro-batches all gradients are there from the first one on
                        (out_.accumulates_ ? out_.accumulated(begin) + first.activations
                                           : own.most_within - first.before.gradients);
    const std::int64_t after = out_.units_[end - 1].activations_after;
    if (after > 0 && out_.sends_behind_)
      own.after_backward = held + own.memory.sent + out_.accumulated(end) + after;
  }

  void add_reduced(Range& own, std::size_t end) const {
    own.reduced = out_.units_[end].starts + own.reduce;
    const auto later = [&](const Unit& unit) { return unit.starts >= own.reduced; };
    const auto first = out_.units_.begin() + static_cast<std::ptrdiff_t>(end);
    own.next_reduced =
        static_cast<std::size_t>(std::find_if(first, out_.units_.end() - 1, later) - out_.units_.begin());
    const auto step = std::upper_bound(step_starts_.begin(), step_starts_.end(), own.reduced) - 1;
    if (step + 1 == step_starts_.end()) return;
    own.then = activations_in(static_cast<std::size_t>(step - step_starts_.begin()));
    if (!out_.accumulates_) own.then += out_.units_[std::max(own.next_reduced, end + 1) - 1].before.gradients;
  }

  MemoryBound& out_;
  const Workload& workload_;
  const TransferCost& transfer_;
  const Groups& units_;
  Activations activations_;
  std::vector<std::int64_t> in_next_step_;
  std::vector<Time> step_starts_;
  std::vector<std::uint32_t> first_step_;  // by layer
};

MemoryBound::MemoryBound(const Setting& setting, const TransferCost& transfer, const Groups& units,
                         const PipelineOptions& options)
    : setting_(setting),
      units_(units.size() + 1),
      ranges_(units.size() * units.size()),
      accumulates_(setting.conditions.accumulation_steps > 1),
      keeps_last_(options.keeps_last_group),
      is_early_(options.gathers_early),
      keeps_parameters_(!options.reshard_after_backward),
      is_steady_(!setting.conditions.overlap.slows()),
      sends_behind_(options.scatters_in_flight != 0U),
      awaits_scatters_(options.scatters_in_flight.value_or(2) < 2) {
  Builder(*this, transfer, units).run();
}

/// One way of gathering ahead, within one cap.
class MemoryBound::Search {
 public:
  Search(const MemoryBound& bound, std::int64_t memory, RelaxationLimits& limits, std::size_t max_states,
         GathersAhead ahead)
      : bound_(bound),
        memory_(memory - bound.lasting_),
        limits_(limits),
        max_states_(max_states),
        ahead_(ahead.in_forward),
        ahead_in_backward_(ahead.in_backward),
        count_(bound.units_.size() - 1),
        fronts_(2 * count_ * count_) {}

  /// Nothing at all if that takes more steps than there are.
  std::optional<std::optional<RelaxedPlan>> run() {
    find_rests();
    for (std::size_t begin = 0; begin < count_; ++begin) {
      const std::vector<Before> befores = befores_of(begin);
      for (std::size_t end = begin + 1; end <= count_; ++end) {
        if (!fits_alone(begin, end)) continue;
        for (const bool is_kept : {false, true}) extend(befores, begin, end, is_kept);
        if (limits_.steps < 0) return {};
      }
    }
    return best();
  }

 private:
  std::optional<RelaxedPlan> best() {
    std::optional<RelaxedPlan> out;
    for (std::size_t begin = 0; begin < count_; ++begin)
      for (const bool is_kept : {false, true}) {
        if (is_kept && !holds_kept(count_)) continue;
        const Front& states = front(begin, count_, is_kept);
        for (std::size_t i = 0; i < states.size(); ++i) {
          const Time time = iteration(states[i], count_, is_kept);
          if (out && out->time <= time) continue;
          out = traced(begin, is_kept, i);
          out->time = time;
        }
      }
    return out;
  }

  const Range& range(std::size_t begin, std::size_t end) const { return bound_.range(begin, end); }
  const Unit& unit(std::size_t i) const { return bound_.units_[i]; }
  /// The states whose last group this is.
  Front& front(std::size_t begin, std::size_t end, bool is_kept) {
    return fronts_[(is_kept ? count_ * count_ : 0) + begin * count_ + end - 1];
  }

  bool fits_alone(std::size_t begin, std::size_t end) const {
    const Range& own = range(begin, end);
    return own.in_backward <= memory_ && own.after_backward <= memory_ &&
           (!bound_.keeps_last_between_ || end < count_ ||
            own.memory.gathered + bound_.between_passes_ <= memory_);
  }

  /// A group that ends where others begin, with what matters to them.
  struct Before {
    const Range* range = nullptr;
    const Front* states = nullptr;
    std::size_t begin = 0;
    bool is_kept = false;
    /// Whether its reduce-scatter has not ended when the first step of the next group runs.
    bool is_sent = false;
    std::int64_t share = 0;  ///< of reduced gradients, of the groups before it
  };

  std::vector<Before> befores_of(std::size_t end) {
    std::vector<Before> out;
    for (std::size_t begin = 0; begin < end; ++begin)
      for (const bool is_kept : {false, true}) {
        const Front& states = front(begin, end, is_kept);
        if (states.empty()) continue;
        // it does not begin before its last gradient is ready, nor before the next group is gathered
        const Time since_ready = unit(end).starts - unit(end - 1).ready;
        const Range& own = range(begin, end);
        out.push_back({.range = &own,
                       .states = &states,
                       .begin = begin,
                       .is_kept = is_kept,
                       .is_sent = bound_.sends_behind_ && (bound_.is_steady_ ? own.reduce > since_ready
                                                                             : since_ready == Time::zero()),
                       .share = unit(begin).before.share});
      }
    return out;
  }

  void extend(const std::vector<Before>& befores, std::size_t begin, std::size_t end, bool is_kept) {
    const Range& own = range(begin, end);
    if (begin == 0) {
      if (!is_kept && !(bound_.keeps_last_ && end == count_) && !holds_early(end)) return;
      State state;
      if (ahead_in_backward_ && bound_.is_early_)
        state.gathering = bound_.accumulates_ && bound_.keeps_parameters_
                              ? -bound_.setting_.workload.forward_total
                              : -unit(end - 1).forward_from;
      if (ahead_in_backward_ && unit(end - 1).ready > unit(begin).starts)
        state.next_gathered = memory_ - own.in_backward;
      add(state, begin, end, is_kept);
      return;
    }
    const bool may_keep_before = is_kept || holds_kept(begin);
    for (const Before& before : befores)
      if (before.is_kept ? may_keep_before : !is_kept) extend(before, begin, end, is_kept);
  }

  void extend(const Before& before, std::size_t begin, std::size_t end, bool is_kept) {
    if (!fits(before, begin, end, is_kept)) return;
    const std::int64_t next = is_kept ? kNoLimit : next_gathered(before, begin, end);
    if (next < 0) return;
    const Front& from = *before.states;
    limits_.steps -= static_cast<std::int64_t>(from.size());
    const std::int64_t gathered =  // beside what states count
        range(begin, end).memory.gathered - (bound_.keeps_last_ && end == count_ ? bound_.last_kept_ : 0);
    const std::int64_t most_before_last = max_before_last(before, begin, end);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if ((!is_kept && gathered > from[i].next_gathered) || from[i].before_last > most_before_last) continue;
      State state = from[i];
      state.before_last = before.range->memory.gathered;
      state.next_gathered = next;
      state.previous_begin = static_cast<std::uint32_t>(before.begin);
      state.previous_kept = before.is_kept;
      state.previous_state = static_cast<std::uint32_t>(i);
      add(state, begin, end, is_kept);
    }
  }

  void add(State& state, std::size_t begin, std::size_t end, bool is_kept) {
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
    state.summed = std::max(state.summed, state.reduced) + own.sum;
    if (iteration(state, end, is_kept) < limits_.below) keep(front(begin, end, is_kept), state, max_states_);
  }

  /// Whether the memory is enough between forward and backward, when all that is kept up to this unit is
  /// there.
  bool holds_kept(std::size_t end) const {
    std::int64_t most = 0;
    if (unit(0).forward_from > Time::zero()) most = bound_.between_passes_;
    if (unit(0).begins_in_time)
      most = std::max(most, unit(0).activations +
                                (bound_.accumulates_ ? bound_.accumulated(0) : unit(0).first_gradients));
    return unit(end).before.gathered + (end < count_ ? bound_.last_kept_ : 0) + most <= memory_;
  }

  /// Whether the memory is enough for the gather of the first group for backward, which is there when that
  /// group's forward pass begins if gathers are early.
  bool holds_early(std::size_t end) const {
    if (!ahead_in_backward_ || !bound_.is_early_) return true;
    const Range& own = range(0, end);
    const std::int64_t held = own.memory.gathered + own.beside;
    if (unit(end - 1).forward_from > Time::zero() && held + bound_.between_passes_ > memory_) return false;
    return !unit(0).is_forward_in_time || bound_.keeps_parameters_ ||
           held + own.memory.gathered + unit(0).activations_in_forward + bound_.accumulated(0) <= memory_;
  }

  /// What the forward pass of the group's last layer takes if the next group, which comes before it in
  /// backward, is gathered.
  std::int64_t in_forward(const Before& before, std::size_t begin, std::size_t end) const {
    const Range& own = range(begin, end);
    return own.memory.gathered + own.beside + before.range->memory.gathered +
           unit(begin).activations_in_forward + bound_.accumulated(0);
  }

  /// Whether the group fits after the one before.
  bool fits(const Before& before, std::size_t begin, std::size_t end, bool is_kept) const {
    if (ahead_ && unit(begin).is_forward_in_time && in_forward(before, begin, end) > memory_) return false;
    const Range& own = range(begin, end);
    if ((!ahead_in_backward_ && !is_kept) || own.in_backward == 0 || !before.is_sent) return true;
    const std::int64_t in_first_step =
        (bound_.accumulates_ ? bound_.accumulated(begin) : unit(begin).first_gradients) +
        unit(begin).activations;
    return before.range->memory.sent + before.share + own.memory.gathered + own.beside + in_first_step <=
           memory_;
  }

  /// The most that the group before the one before may gather. With early gathers it is gathered in the
  /// group's forward pass as well, unless the gather of the one before lasts longer than that pass.
  std::int64_t max_before_last(const Before& before, std::size_t begin, std::size_t end) const {
    const bool is_gathered = ahead_ && bound_.is_early_ && bound_.is_steady_ &&
                             unit(begin).is_forward_in_time &&
                             before.range->gather < unit(end - 1).forward_from - unit(begin).forward_after;
    return is_gathered ? memory_ - in_forward(before, begin, end) : kNoLimit;
  }

  /// The most that the group after this one may gather; less than 0 if this one does not fit after the one
  /// before.
  std::int64_t next_gathered(const Before& before, std::size_t begin, std::size_t end) const {
    std::int64_t out = kNoLimit;
    if (!ahead_in_backward_ || !unit(end - 1).ends_in_time) return out;
    const Range& own = range(begin, end);
    const std::int64_t held = own.memory.gathered + own.beside + before.share;
    if (bound_.is_steady_ && bound_.awaits_scatters_ && before.range->reduced < unit(end - 1).ready) {
      // the reduce-scatter before began when this group did or earlier, and those before it have ended; after
      // it the next group is gathered
      const std::size_t next = before.range->next_reduced;
      const std::int64_t most = std::max(before.range->then, next < end ? range(next, end).most_within : 0);
      out = memory_ - held - most -
            (bound_.accumulates_ ? bound_.accumulated(begin) : -unit(begin).before.gradients);
    }
    const std::int64_t at_end =
        held + own.memory.gradients + unit(end - 1).activations_at_end + bound_.accumulated(end);
    if (bound_.sends_behind_) {
      if (at_end + before.range->memory.sent <= memory_) return out;
      if (bound_.is_steady_ && before.range->reduce > unit(end - 1).ready - unit(begin - 1).ready) return -1;
    }
    return std::min(out, memory_ - at_end);  // it is gathered by then, or the reduce-scatter has not ended
  }

  /// The least that collectives of units from one on take, however they are grouped.
  struct Rest {
    Time gathers{};
    Time gathers_for_backward{};
    Time reduces{};
    Time sums{};
  };

  void find_rests() {
    rests_.assign(count_ + 1, {Time::max(), Time::max(), Time::max(), Time::max()});
    rests_[count_] = {};
    for (std::size_t begin = count_; begin-- > 0;)
      for (std::size_t end = begin + 1; end <= count_; ++end) {
        const Range& own = range(begin, end);
        const Rest& rest = rests_[end];
        if (!fits_alone(begin, end) || rest.gathers == Time::max()) continue;
        Rest& least = rests_[begin];
        const bool is_kept_last = bound_.keeps_last_ && end == count_;
        least.gathers = std::min(least.gathers, own.gather + rest.gathers);
        least.gathers_for_backward =
            std::min(least.gathers_for_backward,
                     (is_kept_last ? Time::zero() : own.gather) + rest.gathers_for_backward);
        least.reduces = std::min(least.reduces, own.reduce + rest.reduces);
        least.sums = std::min(least.sums, own.sum + rest.sums);
      }
    // where nothing fits no state is ever asked
    for (Rest& rest : rests_)
      if (rest.gathers == Time::max()) rest = {};
  }

  /// An iteration takes at least this long if the first units, up to `end`, are grouped in this way.
  Time iteration(const State& state, std::size_t end, bool is_kept) const {
    const Workload& workload = bound_.setting_.workload;
    const std::int64_t batches = bound_.setting_.conditions.accumulation_steps;
    const Extras& extras = bound_.setting_.extras;
    const Rest& rest = rests_[end];
    const Time gathers = state.forward + rest.gathers;
    const Time forward =
        ahead_ ? std::max(workload.forward_total, gathers) : workload.forward_total + gathers;
    const Time gathering = state.gathering + (is_kept ? Time::zero() : rest.gathers_for_backward);
    const Time backward =
        std::max({state.reduced + rest.reduces, state.summed + rest.sums,
                  gathering + state.reducing + rest.reduces, workload.backward_total + state.delay});
    const Time earlier = ahead_in_backward_ ? std::max(workload.backward_total, gathering)
                                            : workload.backward_total + gathering;
    return extras.read + batches * forward + (batches - 1) * earlier + backward + extras.lars +
           extras.lars_gather + extras.update;
  }

  RelaxedPlan traced(std::size_t begin, bool is_kept, std::size_t state) {
    RelaxedPlan out;
    for (std::size_t end = count_;;) {
      out.units.insert(out.units.begin(), static_cast<std::uint32_t>(end - begin));
      if (is_kept) ++out.kept;
      if (begin == 0) return out;
      const State& at = front(begin, end, is_kept)[state];
      end = begin;
      begin = at.previous_begin;
      is_kept = at.previous_kept;
      state = at.previous_state;
    }
  }

  const MemoryBound& bound_;
  std::int64_t memory_;  // without what lasts
  RelaxationLimits& limits_;
  std::size_t max_states_;
  bool ahead_;
  bool ahead_in_backward_;
  std::size_t count_;
  std::vector<Front> fronts_;
  std::vector<Rest> rests_;  // by the first unit
};

std::optional<std::optional<RelaxedPlan>> MemoryBound::best(std::int64_t memory, GathersAhead ahead,
                                                            RelaxationLimits& limits) const {
  // However few beginnings are told apart, times are no more than any plan takes; with few they may be less.
  constexpr std::int64_t kMaxStates = 4;
  constexpr std::int64_t kKept = 2;  // ways of keeping a group and the one before it
  const std::int64_t states = std::min(kMaxStates, limits.steps / (kKept * (neighbours(memory) + 1)));
  if (states == 0) return {};
  return Search(*this, memory, limits, static_cast<std::size_t>(states), ahead).run();
}

std::int64_t MemoryBound::neighbours(std::int64_t memory) const {
  const std::size_t count = units_.size() - 1;
  std::vector<std::int64_t> ending(count + 1);  // groups that fit, by where they end
  std::int64_t out = 0;
  for (std::size_t begin = 0; begin < count; ++begin)
    for (std::size_t end = begin + 1; end <= count; ++end) {
      if (lasting_ + range(begin, end).in_backward > memory) continue;
      ++ending[end];
      out += ending[begin];
    }
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
      if (lasting_ + std::max(own.in_backward, own.after_backward) > memory) continue;
      least[end] = std::min(least[end], least[begin] + batches * own.gather + own.reduce);
    }
  }
  if (least[count] == Time::max()) return {};
  const Extras& extras = setting_.extras;
  return extras.read + least[count] + extras.lars + extras.lars_gather + extras.update;
}

}  // namespace planner
