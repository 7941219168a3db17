// The relaxation of memory_bound.hpp, solved: beginnings of plans, one group longer at a time, of which those
// are kept that nothing beats.

#include "planner/advise/memory_bound.hpp"

#include <algorithm>
#include <limits>

namespace planner {
namespace {

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
    const std::int64_t held = own.memory.gathered + own.last_gathered;
    if (unit(end - 1).forward_from > Time::zero() && held + bound_.between_passes_ > memory_) return false;
    return !unit(0).is_forward_in_time || bound_.keeps_parameters_ ||
           held + own.memory.gathered + unit(0).activations_in_forward + bound_.accumulated(0) <= memory_;
  }

  /// What the forward pass of the group's last layer takes if the next group, which comes before it in
  /// backward, is gathered.
  std::int64_t in_forward(const Before& before, std::size_t begin, std::size_t end) const {
    const Range& own = range(begin, end);
    return own.memory.gathered + own.last_gathered + before.range->memory.gathered +
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
    return before.range->memory.sent + before.share + own.memory.gathered + own.last_gathered +
               in_first_step <=
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
    const std::int64_t held = own.memory.gathered + own.last_gathered + before.share;
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

}  // namespace planner
