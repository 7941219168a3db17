// What models of an iteration are made of.

#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/choose/bounds.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/iteration_spec.hpp"
#include "planner/choose/pareto.hpp"

namespace planner {

/// Bytes of gradients begin to end - 1.
inline std::int64_t bytes_between(const Workload& workload, std::uint32_t begin, std::uint32_t end) {
  return workload.bytes_before[end] - workload.bytes_before[begin];
}

bool any_encodes(const IterationSpec& spec);
bool any_decodes(const IterationSpec& spec);
/// Whether a longer group never costs less on the channel, whichever way it travels.
bool longer_costs_more(const IterationSpec& spec, core::CollectiveKind kind);
/// Whether a longer group never takes less to encode or to decode.
bool coding_grows(const IterationSpec& spec);
/// And two groups never take less than one of both.
bool merging_saves_code(const IterationSpec& spec);

/// Least sums over groups by the way that is best for each.
std::vector<sim::Time> min_channel_time(const IterationSpec& spec, core::CollectiveKind kind);
std::vector<sim::Time> min_encoding(const IterationSpec& spec);
std::vector<sim::Time> min_decoding(const IterationSpec& spec);
/// Of encoding and decoding together.
std::vector<sim::Time> min_coding(const IterationSpec& spec);
/// No grouping of the gradients before a cut takes less to encode.
std::vector<sim::Time> min_encoding_before(const IterationSpec& spec);

/// Of `coding` parts of encoding and decoding and 1 - `coding` parts of channel time, rounded down.
std::vector<sim::Time> min_mix(const IterationSpec& spec, core::CollectiveKind kind, double coding);

/// When each gradient is ready: by itself, or when backward has ended.
std::vector<sim::Time> ready_times(const Workload& workload, bool after_backward);

/// A channel that carries group after group, each when its last gradient is ready and its tick has come. All
/// times since backward began.
class Channel {
 public:
  Channel(const IterationSpec& spec, core::CollectiveKind kind, bool after_backward);

  /// When the channel is free again after a group of so much time that ends before gradient `end`, if it was
  /// free at `free` and encoding has delayed backward by `encoded`.
  sim::Time extend(sim::Time free, sim::Time encoded, std::uint32_t end, sim::Time tick,
                   sim::Time time) const {
    return std::max({free, ready_[end - 1] + encoded, tick}) + time;
  }

  /// By how much encoding may have delayed backward at most, so that a group that ends before gradient `end`
  /// can start at `start`; below 0: not even without.
  sim::Time latest_encoding(sim::Time start, std::uint32_t end, sim::Time tick) const {
    return start < tick ? sim::Time(-1) : start - ready_[end - 1];
  }

  /// For bound(); left out where only values are asked for.
  void prepare_bounds();

  /// The soonest end of everything when the channel is free at this time, after the gradients before `cut`.
  sim::Time bound(sim::Time free, sim::Time encoded, std::uint32_t cut) const {
    if (cut == ready_.size()) return free;
    return std::max(std::max(free, ready_[cut] + encoded) + min_[cut], bounds_[cut] + encoded);
  }

  bool longer_costs_more() const { return longer_costs_more_; }

  /// No group after `cut` starts sooner, however soon the channel is free.
  sim::Time next_start(std::uint32_t cut) const { return ready_[cut]; }
  /// The group after `cut` takes no less.
  sim::Time min_next(std::uint32_t cut) const { return min_next_[cut]; }

 private:
  const IterationSpec& spec_;
  core::CollectiveKind kind_;
  std::vector<sim::Time> ready_;
  bool longer_costs_more_;
  std::vector<sim::Time> min_;     // time on the channel from each cut on
  std::vector<sim::Time> bounds_;  // on the end, from each cut on
  std::vector<sim::Time> min_next_;
};

/// How many beginnings a cut may keep, so that no search takes much longer than seconds.
std::size_t max_kept(std::uint32_t gradients, std::uint32_t transfers);

/// A model whose value a Pareto problem describes. Besides what ParetoSearch asks for, the problem has
/// `Step step(begin, end, way, tick)` and `void prepare_bounds()`.
template <typename Problem>
class ParetoModel final : public IterationModel {
 public:
  template <typename... Arguments>
  explicit ParetoModel(Arguments&&... arguments) : problem_(std::forward<Arguments>(arguments)...) {}

  sim::Time value(const Groups& groups) const override {
    auto state = problem_.start();
    for (const Group& group : groups)
      state = problem_.extend(state, problem_.step(group.begin, group.end, group.transfer, group.tick));
    return problem_.bound(state, problem_.count());
  }

  sim::Time lower_bound() const override { return prepared().bound(problem_.start(), 0); }

  OptimalGroups optimal(const GroupRules& rules) const override {
    return ParetoSearch(prepared(), rules, max_kept(problem_.count(), problem_.transfers())).run();
  }

 private:
  const Problem& prepared() const {
    if (!std::exchange(is_prepared_, true)) problem_.prepare_bounds();
    return problem_;
  }

  mutable Problem problem_;
  mutable bool is_prepared_ = false;
};

}  // namespace planner
