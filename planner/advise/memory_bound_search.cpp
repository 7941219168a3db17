// The relaxation of memory_bound.hpp, solved: beginnings of plans, one group longer at a time, of which those
// are kept that nothing beats.

#include "planner/advise/memory_bound.hpp"

#include <algorithm>
#include <limits>
#include <span>

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

  /// Whether no difference is negative; without branches, which would seldom be foreseen.
  bool beats(const State& other) const {
    return ((other.forward - forward).count() | (other.reduced - reduced).count() |
            (other.reducing - reducing).count() | (other.summed - summed).count() |
            (other.gathering - gathering).count() | (other.delay - delay).count() |
            (other.before_last - before_last) | (next_gathered - other.next_gathered)) >= 0;
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
        batches_(bound.setting_.conditions.accumulation_steps),
        forward_total_(bound.setting_.workload.forward_total),
        backward_total_(bound.setting_.workload.backward_total),
        extras_(bound.setting_.extras.read + bound.setting_.extras.lars + bound.setting_.extras.lars_gather +
                bound.setting_.extras.update),
        fits_(count_ * count_),
        fronts_(2 * count_ * count_) {}

  /// Nothing at all if that takes more steps than there are.
  std::optional<std::optional<RelaxedPlan>> run() {
    find_what_fits();
    if (!find_rests()) return std::optional<RelaxedPlan>();
    for (std::size_t begin = 0; begin < count_; ++begin) {
      const std::vector<Before> befores = befores_of(begin);
      for (std::size_t end = begin + 1; end <= count_ && may_be_longer(begin, end); ++end) {
        if (!fits(begin, end)) continue;
        for (const bool is_kept : {false, true})
          if (!is_kept || end < kept_end_) extend(befores, begin, end, is_kept);
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
        if (is_kept && kept_end_ <= count_) continue;
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
    std::int64_t gathered = 0;
    std::int64_t sent = 0;
    std::int64_t share = 0;  ///< of reduced gradients, of the groups before it
    Time gather{};
    Time reduce{};
    Time reduced{};
    std::size_t next_reduced = 0;
    std::int64_t then = 0;
    std::size_t begin = 0;
    std::span<const State> states;
    bool is_kept = false;
    bool is_sent = false;
  };

  /// A group that may come after others, with what does not depend on them.
  struct Next {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool is_kept = false;
    bool is_gathered_again = false;
    bool gathers_before_last = false;  ///< if the gather of the one before is shorter than `forward`
    Time forward{};
    std::int64_t gathered_anew = 0;     ///< beside what states count
    std::int64_t room_in_forward = 0;   ///< for the gather of the one before
    std::int64_t room_in_backward = 0;  ///< for what the one before sends
    std::int64_t at_end = 0;            ///< without the shares of groups before it
  };

  /// Whether the group's reduce-scatter has not ended when the first step of the next group runs: it does not
  /// begin before its last gradient is ready, nor before the next group is gathered.
  bool is_sent(std::size_t begin, std::size_t end) const {
    const Time since_ready = unit(end).starts - unit(end - 1).ready;
    return bound_.sends_behind_ &&
           (bound_.is_steady_ ? range(begin, end).reduce > since_ready : since_ready == Time::zero());
  }

  std::vector<Before> befores_of(std::size_t end) {
    std::vector<Before> out;
    for (std::size_t begin = 0; begin < end; ++begin)
      for (const bool is_kept : {false, true}) {
        const Front& states = front(begin, end, is_kept);
        if (states.empty()) continue;
        const Range& own = range(begin, end);
        out.push_back({.gathered = own.memory.gathered,
                       .sent = own.memory.sent,
                       .share = unit(begin).before.share,
                       .gather = own.gather,
                       .reduce = own.reduce,
                       .reduced = own.reduced,
                       .next_reduced = own.next_reduced,
                       .then = own.then,
                       .begin = begin,
                       .states = states,
                       .is_kept = is_kept,
                       .is_sent = is_sent(begin, end)});
      }
    return out;
  }

  void extend(const std::vector<Before>& befores, std::size_t begin, std::size_t end, bool is_kept) {
    const Next next = next_of(begin, end, is_kept);
    if (begin == 0) {
      if (next.is_gathered_again && !holds_early(end)) return;
      State state;
      if (ahead_in_backward_ && bound_.is_early_)
        state.gathering = bound_.accumulates_ && bound_.keeps_parameters_
                              ? -bound_.setting_.workload.forward_total
                              : -unit(end - 1).forward_from;
      if (ahead_in_backward_ && unit(end - 1).ready > unit(begin).starts)
        state.next_gathered = memory_ - range(begin, end).in_backward;
      add(state, next);
      return;
    }
    for (const Before& before : befores)
      if (before.is_kept || !is_kept) extend(before, next);
  }

  Next next_of(std::size_t begin, std::size_t end, bool is_kept) const {
    const Range& own = range(begin, end);
    const std::int64_t held = own.memory.gathered + own.last_gathered;
    const bool is_gathered_early = ahead_ && unit(begin).is_forward_in_time;
    return {
        .begin = begin,
        .end = end,
        .is_kept = is_kept,
        .is_gathered_again = !is_kept && !(bound_.keeps_last_ && end == count_),
        .gathers_before_last = is_gathered_early && bound_.is_early_ && bound_.is_steady_,
        .forward = unit(end - 1).forward_from - unit(begin).forward_after,
        .gathered_anew = gathered_anew(begin, end),
        .room_in_forward = is_gathered_early ? room_in_forward(begin, held) : kNoLimit,
        .room_in_backward = (ahead_in_backward_ || is_kept) && own.in_backward > 0
                                ? memory_ - held - in_first_step(begin)
                                : kNoLimit,
        .at_end = held + own.memory.gradients + unit(end - 1).activations_at_end + bound_.accumulated(end)};
  }

  void extend(const Before& before, const Next& next) {
    if (before.gathered > next.room_in_forward) return;
    if (before.is_sent && before.sent + before.share > next.room_in_backward) return;
    const std::int64_t next_gathered = next.is_kept ? kNoLimit : most_after(before, next);
    if (next_gathered < 0) return;
    limits_.steps -= static_cast<std::int64_t>(before.states.size());
    // With early gathers the group before the one before is gathered in the group's forward pass as well,
    // unless the gather of the one before lasts longer than that pass.
    const std::int64_t most_before_last = next.gathers_before_last && before.gather < next.forward
                                              ? next.room_in_forward - before.gathered
                                              : kNoLimit;
    for (std::size_t i = 0; i < before.states.size(); ++i) {
      const State& from = before.states[i];
      if ((!next.is_kept && next.gathered_anew > from.next_gathered) || from.before_last > most_before_last)
        continue;
      State state = from;
      state.before_last = before.gathered;
      state.next_gathered = next_gathered;
      state.previous_begin = static_cast<std::uint32_t>(before.begin);
      state.previous_kept = before.is_kept;
      state.previous_state = static_cast<std::uint32_t>(i);
      add(state, next);
    }
  }

  void add(State& state, const Next& next) {
    const std::size_t end = next.end;
    const Range& own = range(next.begin, end);
    state.forward = ahead_ ? own.gather + std::max(unit(end - 1).forward_from, state.forward)
                           : own.gather + state.forward;
    if (next.is_gathered_again) {
      const Time starts = unit(next.begin).starts;
      state.gathering += own.gather;
      state.delay = ahead_in_backward_ ? std::max(state.delay, state.gathering - starts)
                                       : std::max(state.delay, state.reduced - starts) + own.gather;
    }
    state.reducing += own.reduce;
    state.reduced = std::max(state.reduced, unit(end - 1).ready + state.delay) + own.reduce;
    state.summed = std::max(state.summed, state.reduced) + own.sum;
    if (iteration(state, end, next.is_kept) < limits_.below)
      keep(front(next.begin, end, next.is_kept), state, max_states_);
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

  /// What the forward pass of a group's last layer leaves to the gather of the next group, which comes before
  /// it in backward, if this much is held for the group itself.
  std::int64_t room_in_forward(std::size_t begin, std::int64_t held) const {
    return memory_ - held - unit(begin).activations_in_forward - bound_.accumulated(0);
  }

  /// The most that the group after this one may gather; less than 0 if this one does not fit after the one
  /// before.
  std::int64_t most_after(const Before& before, const Next& next) const {
    std::int64_t out = kNoLimit;
    const std::size_t begin = next.begin;
    const std::size_t end = next.end;
    if (!ahead_in_backward_ || !unit(end - 1).ends_in_time) return out;
    const Range& own = range(begin, end);
    if (bound_.is_steady_ && bound_.awaits_scatters_ && before.reduced < unit(end - 1).ready) {
      // the reduce-scatter before began when this group did or earlier, and those before it have ended; after
      // it the next group is gathered
      const std::size_t first = before.next_reduced;
      const std::int64_t most = std::max(before.then, first < end ? range(first, end).most_within : 0);
      out = memory_ - own.memory.gathered - own.last_gathered - before.share - most -
            (bound_.accumulates_ ? bound_.accumulated(begin) : -unit(begin).before.gradients);
    }
    const std::int64_t at_end = next.at_end + before.share;
    if (bound_.sends_behind_) {
      if (at_end + before.sent <= memory_) return out;
      if (bound_.is_steady_ && before.reduce > unit(end - 1).ready - unit(begin - 1).ready) return -1;
    }
    return std::min(out, memory_ - at_end);  // it is gathered by then, or the reduce-scatter has not ended
  }

  /// What groups that meet at a unit leave to each other, the best of them each.
  struct Meeting {
    std::int64_t gathered = kNoLimit;    ///< the least that one before gathers
    std::int64_t sent = kNoLimit;        ///< ... sends while the next one begins
    std::int64_t sent_alone = kNoLimit;  ///< ... sends
    std::int64_t share = kNoLimit;       ///< ... and the groups before it hold of reduced gradients
    std::int64_t next_gathered = -1;     ///< the most that one before lets the next one gather
    std::int64_t room_in_forward = -1;   ///< the most that one after leaves to the gather of the one before
    std::int64_t room_in_backward = -1;  ///< ... and to what the one before sends
  };

  /// Finds groups that fit alone, and with some group before and some group after them.
  void find_what_fits() {
    kept_end_ = 1;
    while (kept_end_ <= count_ && holds_kept(kept_end_)) ++kept_end_;
    meetings_.assign(count_ + 1, {});
    for (std::size_t begin = 0; begin < count_; ++begin)
      for (std::size_t end = begin + 1; end <= count_ && may_be_longer(begin, end); ++end)
        fits_[begin * count_ + end - 1] = fits_alone(begin, end) && fits_after_some(begin, end);
    for (std::size_t begin = count_; begin-- > 0;)
      for (std::size_t end = begin + 1; end <= count_ && may_be_longer(begin, end); ++end)
        if (fits(begin, end)) fits_[begin * count_ + end - 1] = fits_before_some(begin, end);
  }

  bool fits(std::size_t begin, std::size_t end) const { return fits_[begin * count_ + end - 1] != 0; }

  /// Whether a group from this unit to that one or a later one may fit at all.
  bool may_be_longer(std::size_t begin, std::size_t end) const {
    const Range& own = range(begin, end);
    return own.in_backward - own.last_gathered <= memory_;
  }

  std::int64_t gathered_anew(std::size_t begin, std::size_t end) const {
    return range(begin, end).memory.gathered - (bound_.keeps_last_ && end == count_ ? bound_.last_kept_ : 0);
  }
  std::int64_t in_first_step(std::size_t begin) const {
    return (bound_.accumulates_ ? bound_.accumulated(begin) : unit(begin).first_gradients) +
           unit(begin).activations;
  }

  bool fits_after_some(std::size_t begin, std::size_t end) {
    const Range& own = range(begin, end);
    const std::int64_t held = own.memory.gathered + own.last_gathered;
    const bool may_be_kept = end < kept_end_;
    const Meeting& before = meetings_[begin];
    std::int64_t next = kNoLimit;
    if (begin > 0) {
      if (before.gathered == kNoLimit) return false;
      if (ahead_ && unit(begin).is_forward_in_time && before.gathered > room_in_forward(begin, held))
        return false;
      if (!may_be_kept && gathered_anew(begin, end) > before.next_gathered) return false;
      if (ahead_in_backward_ && own.in_backward > 0 && before.sent + held + in_first_step(begin) > memory_)
        return false;
      if (ahead_in_backward_ && unit(end - 1).ends_in_time) {
        const std::int64_t at_end = held + before.share + own.memory.gradients +
                                    unit(end - 1).activations_at_end + bound_.accumulated(end);
        if (!bound_.sends_behind_ || at_end + before.sent_alone > memory_) next = memory_ - at_end;
      }
    } else if (!may_be_kept) {
      if (!(bound_.keeps_last_ && end == count_) && !holds_early(end)) return false;
      if (ahead_in_backward_ && unit(end - 1).ready > unit(begin).starts) next = memory_ - own.in_backward;
    }
    if (may_be_kept) next = kNoLimit;
    if (next < 0) return false;
    if (end == count_) return true;
    Meeting& after = meetings_[end];
    after.gathered = std::min(after.gathered, own.memory.gathered);
    after.sent_alone = std::min(after.sent_alone, own.memory.sent);
    after.sent = std::min(after.sent, is_sent(begin, end) ? own.memory.sent + unit(begin).before.share : 0);
    after.share = std::min(after.share, unit(begin).before.share);
    after.next_gathered = std::max(after.next_gathered, next);
    return true;
  }

  bool fits_before_some(std::size_t begin, std::size_t end) {
    const Range& own = range(begin, end);
    if (end < count_) {
      const Meeting& after = meetings_[end];
      if (own.memory.gathered > after.room_in_forward) return false;
      if (is_sent(begin, end) && own.memory.sent + unit(begin).before.share > after.room_in_backward)
        return false;
    }
    if (begin == 0) return true;
    Meeting& before = meetings_[begin];
    const std::int64_t held = own.memory.gathered + own.last_gathered;
    before.room_in_forward =
        std::max(before.room_in_forward,
                 ahead_ && unit(begin).is_forward_in_time ? room_in_forward(begin, held) : kNoLimit);
    before.room_in_backward = std::max(before.room_in_backward, own.in_backward > 0 && ahead_in_backward_
                                                                    ? memory_ - held - in_first_step(begin)
                                                                    : kNoLimit);
    return true;
  }

  /// The least that collectives of units from one on take, however they are grouped.
  struct Rest {
    Time gathers{};
    Time gathers_for_backward{};
    Time reduces{};
    Time sums{};
  };

  /// Returns whether there are such groups at all.
  bool find_rests() {
    rests_.assign(count_ + 1, {Time::max(), Time::max(), Time::max(), Time::max()});
    rests_[count_] = {};
    for (std::size_t begin = count_; begin-- > 0;)
      for (std::size_t end = begin + 1; end <= count_ && may_be_longer(begin, end); ++end) {
        const Range& own = range(begin, end);
        const Rest& rest = rests_[end];
        if (!fits(begin, end) || rest.gathers == Time::max()) continue;
        Rest& least = rests_[begin];
        const bool is_kept_last = bound_.keeps_last_ && end == count_;
        least.gathers = std::min(least.gathers, own.gather + rest.gathers);
        least.gathers_for_backward =
            std::min(least.gathers_for_backward,
                     (is_kept_last ? Time::zero() : own.gather) + rest.gathers_for_backward);
        least.reduces = std::min(least.reduces, own.reduce + rest.reduces);
        least.sums = std::min(least.sums, own.sum + rest.sums);
      }
    const bool is_possible = rests_[0].gathers < Time::max();
    // where nothing fits no state is ever asked
    for (Rest& rest : rests_)
      if (rest.gathers == Time::max()) rest = {};
    return is_possible;
  }

  /// An iteration takes at least this long if the first units, up to `end`, are grouped in this way.
  Time iteration(const State& state, std::size_t end, bool is_kept) const {
    const Rest& rest = rests_[end];
    const Time gathers = state.forward + rest.gathers;
    const Time forward = ahead_ ? std::max(forward_total_, gathers) : forward_total_ + gathers;
    const Time gathering = state.gathering + (is_kept ? Time::zero() : rest.gathers_for_backward);
    const Time backward =
        std::max({state.reduced + rest.reduces, state.summed + rest.sums,
                  gathering + state.reducing + rest.reduces, backward_total_ + state.delay});
    if (batches_ == 1) return extras_ + forward + backward;
    const Time earlier =
        ahead_in_backward_ ? std::max(backward_total_, gathering) : backward_total_ + gathering;
    return extras_ + batches_ * forward + (batches_ - 1) * earlier + backward;
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
  std::int64_t batches_;
  Time forward_total_;
  Time backward_total_;
  Time extras_;
  std::vector<char> fits_;    // by the group's first unit, then its end
  std::size_t kept_end_ = 0;  ///< groups that end there or later are not kept
  std::vector<Meeting> meetings_;
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
