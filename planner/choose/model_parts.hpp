// Building blocks of iteration models.

#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/choose/bounds.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/iteration_spec.hpp"
#include "planner/choose/pareto.hpp"

namespace planner {

bool any_encodes(const IterationSpec& spec);
bool any_decodes(const IterationSpec& spec);
/// Whether a longer group never costs less on the channel, with any transfer.
bool longer_costs_more(const IterationSpec& spec, core::CollectiveKind kind);
/// Whether a longer group never takes less time to encode or decode.
bool coding_grows(const IterationSpec& spec);
/// Whether coding_grows() holds and two groups never take less than their union.
bool merging_saves_code(const IterationSpec& spec);

/// Least sums over groups of channel time, each group with its cheapest transfer; see min_sums().
std::vector<sim::Time> min_channel_time(const IterationSpec& spec, core::CollectiveKind kind);
std::vector<sim::Time> min_encoding(const IterationSpec& spec);
std::vector<sim::Time> min_decoding(const IterationSpec& spec);
/// Least sums of encoding plus decoding time.
std::vector<sim::Time> min_coding(const IterationSpec& spec);
/// The least encoding time over all groupings of the gradients before each cut.
std::vector<sim::Time> min_encoding_before(const IterationSpec& spec);

/// Least sums of coding * (encoding + decoding) + (1 - coding) * channel time, rounded down.
std::vector<sim::Time> min_mix(const IterationSpec& spec, core::CollectiveKind kind, double coding);

/// When each gradient is ready: individually, or when backward has ended.
std::vector<sim::Time> ready_times(const Workload& workload, bool after_backward);

/// By cut: the time from the first layer of the last group before it to the end of forward, including the
/// updates of all groups before it.
std::vector<sim::Time> forward_and_updates(const IterationSpec& spec);

/// The time until backward and the reduce-scatters have ended, and the time after that; excludes LARS between
/// them. Where each micro-batch reduces its gradients, all of them drain in the same time, and the sum has
/// what those before the last take beyond their backward pass.
struct Phases {
  sim::Time drained{};
  sim::Time forward{};

  sim::Time sum(const IterationSpec& spec) const {
    return drained + spec.extras.lars + forward +
           spec.waited_batches * (drained - spec.workload.backward_total);
  }

  /// How long each phase may be in an iteration of `value` if these are the least.
  Phases longest(const IterationSpec& spec, sim::Time value) const {
    const sim::Time both = value - spec.extras.lars + spec.waited_batches * spec.workload.backward_total;
    return {.drained = (both - forward) / (1 + spec.waited_batches),
            .forward = both - (1 + spec.waited_batches) * drained};
  }
};

/// A channel that transfers groups in order, each when its last gradient is ready and its tick has come.
/// Times count from the start of backward.
class Channel {
 public:
  Channel(const IterationSpec& spec, core::CollectiveKind kind, bool after_backward);

  /// When the channel is free again after a group with this transfer time that ends before gradient `end`, if
  /// the channel was free at `free` and encoding has delayed backward by `encoded`.
  sim::Time extend(sim::Time free, sim::Time encoded, std::uint32_t end, sim::Time tick,
                   sim::Time time) const {
    return std::max({free, ready_[end - 1] + encoded, tick}) + time;
  }

  /// The greatest delay of backward by encoding with which a group that ends before gradient `end` can start
  /// at `start`; negative if no delay allows it.
  sim::Time latest_encoding(sim::Time start, std::uint32_t end, sim::Time tick) const {
    return start < tick ? sim::Time(-1) : start - ready_[end - 1];
  }

  /// Prepares bound(); not needed if only values are computed.
  void prepare_bounds();

  /// The earliest end of the iteration if the channel is free at `free`, after the gradients before `cut`.
  sim::Time bound(sim::Time free, sim::Time encoded, std::uint32_t cut) const {
    if (cut == ready_.size()) return free;
    return std::max(std::max(free, ready_[cut] + encoded) + min_[cut], bounds_[cut] + encoded);
  }

  bool longer_costs_more() const { return longer_costs_more_; }
  const std::vector<sim::Time>& ready() const { return ready_; }

  /// The earliest start of a group after `cut`, even if the channel is free.
  sim::Time next_start(std::uint32_t cut) const { return ready_[cut]; }
  /// The least time of the group after `cut`.
  sim::Time min_next(std::uint32_t cut) const { return min_next_[cut]; }

 private:
  const IterationSpec& spec_;
  core::CollectiveKind kind_;
  std::vector<sim::Time> ready_;
  bool longer_costs_more_;
  std::vector<sim::Time> min_;     // least time on the channel from each cut on
  std::vector<sim::Time> bounds_;  // lower bounds of the end, from each cut on
  std::vector<sim::Time> min_next_;
};

/// The number of prefixes that a cut may keep, so that a search takes a few seconds at most.
std::size_t max_kept(std::uint32_t gradients, std::uint32_t transfers);

/// A model whose value is given by a Pareto problem. Besides the requirements of ParetoSearch, the problem
/// has `Step step(begin, end, transfer, tick)` and `void prepare_bounds()`, and may have `optimal_at_once()`,
/// the optimum of all groupings, or none where the search has to find it.
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

  bool is_closed_form() const override { return true; }

  sim::Time lower_bound() const override { return prepared().bound(problem_.start(), 0); }

  OptimalGroups optimal(const GroupRules& rules) const override {
    if constexpr (requires { problem_.optimal_at_once(); })
      if (rules.allow_everything())
        if (auto found = problem_.optimal_at_once()) return *std::move(found);
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
