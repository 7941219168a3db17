#include "planner/optimal.hpp"

#include <algorithm>
#include <cmath>

#include "planner/bounds.hpp"
#include "planner/lower.hpp"

namespace planner {
namespace {

using sim::Time;
using traces::CollectiveKind;

std::int64_t bytes_between(const Workload& workload, std::uint32_t begin, std::uint32_t end) {
  return workload.bytes_before[end] - workload.bytes_before[begin];
}

std::vector<Time> ready_times(const Workload& workload) {
  std::vector<Time> ready;
  ready.reserve(workload.gradients.size());
  for (const Gradient& gradient : workload.gradients) ready.push_back(gradient.ready);
  return ready;
}

/// A channel that carries group after group, each when its last gradient is ready.
class Channel {
 public:
  Channel(const Workload& workload, std::vector<Time> ready, const CollectiveCost& cost)
      : workload_(workload),
        ready_(std::move(ready)),
        cost_(cost),
        least_(least_channel_time(workload, cost)),
        bounds_(least_.size()) {
    // Whatever carries gradient n or a later one ends no sooner than this, if longer groups do not cost less.
    for (std::size_t n = ready_.size(); n-- > 0;)
      bounds_[n] = cost_.curve.is_monotone() ? std::max(bounds_[n + 1], ready_[n] + least_[n]) : Time::zero();
  }

  Time extend(Time free, std::uint32_t begin, std::uint32_t end) const {
    return std::max(free, ready_[end - 1]) + cost_.time(bytes_between(workload_, begin, end));
  }

  /// The soonest end of everything when the channel is free at this time, after the gradients before `cut`.
  Time bound(Time free, std::uint32_t cut) const {
    if (cut == ready_.size()) return free;
    return std::max(std::max(free, ready_[cut]) + least_[cut], bounds_[cut]);
  }

  bool longer_costs_more() const { return cost_.curve.is_monotone(); }

 private:
  const Workload& workload_;
  std::vector<Time> ready_;
  const CollectiveCost& cost_;
  std::vector<Time> least_;   // time on the channel from each cut on
  std::vector<Time> bounds_;  // on the end, from each cut on
};

class ChannelProblem {
 public:
  static constexpr std::size_t kStates = 1;  ///< when the channel is free
  using State = ParetoState<kStates>;

  ChannelProblem(const Workload& workload, const std::vector<Time>& ready, Time soon_enough,
                 const CollectiveCost& cost)
      : count_(workload.gradient_count()), soon_enough_(soon_enough), channel_(workload, ready, cost) {}

  std::uint32_t count() const { return count_; }
  static State start() { return {}; }
  static State least(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const { return channel_.longer_costs_more(); }

  State extend(const State& state, std::uint32_t begin, std::uint32_t end) const {
    return {channel_.extend(state[0], begin, end)};
  }
  Time bound(const State& state, std::uint32_t cut) const {
    return std::max(soon_enough_, channel_.bound(state[0], cut));
  }

 private:
  std::uint32_t count_;
  Time soon_enough_;
  Channel channel_;
};

class TwoPhaseProblem {
 public:
  /// When the reduce-scatters end; how long from the first all-gather to the end of forward.
  static constexpr std::size_t kStates = 2;
  using State = ParetoState<kStates>;

  TwoPhaseProblem(const Workload& workload, const Costs& costs, const Extras& extras)
      : workload_(workload),
        extras_(extras),
        scatter_(workload, ready_times(workload), costs.of(CollectiveKind::reduce_scatter)),
        gather_(costs.of(CollectiveKind::all_gather)),
        least_gather_(least_channel_time(workload, gather_)),
        compute_(workload.gradients.size() + 1) {
    for (std::uint32_t cut = 1; cut <= count(); ++cut)
      compute_[cut] =
          forward_from(workload, workload.gradients[cut - 1].layer) + group_update(workload, extras, 0, cut);
  }

  std::uint32_t count() const { return workload_.gradient_count(); }
  static State start() { return {}; }
  static State least(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const { return scatter_.longer_costs_more() && gather_.curve.is_monotone(); }

  State extend(const State& state, std::uint32_t begin, std::uint32_t end) const {
    return {scatter_.extend(state[0], begin, end),
            gather_.time(bytes_between(workload_, begin, end)) + std::max(state[1], compute_[end])};
  }

  Time bound(const State& state, std::uint32_t cut) const {
    const Time drained = std::max(workload_.backward_total, scatter_.bound(state[0], cut));
    const Time compute = extras_.read + workload_.forward_total + extras_.update;
    return drained + extras_.lars + std::max(compute, extras_.lars_gather + least_gather_[cut] + state[1]);
  }

 private:
  const Workload& workload_;
  const Extras& extras_;
  Channel scatter_;
  const CollectiveCost& gather_;
  std::vector<Time> least_gather_;  // time on the channel from each cut on
  std::vector<Time> compute_;       // by cut: from the last group's first layer to the end of forward
};

class SeparatePhasesProblem {
 public:
  static constexpr std::size_t kStates = 2;  ///< when the reduce-scatters end; all-gathers in all
  using State = ParetoState<kStates>;

  SeparatePhasesProblem(const Workload& workload, const Costs& costs)
      : workload_(workload),
        scatter_(workload, ready_times(workload), costs.of(CollectiveKind::reduce_scatter)),
        gather_(costs.of(CollectiveKind::all_gather)),
        least_gather_(least_channel_time(workload, gather_)) {}

  std::uint32_t count() const { return workload_.gradient_count(); }
  static State start() { return {}; }
  static State least(std::uint32_t /*cut*/) { return {}; }
  bool longer_costs_more() const { return scatter_.longer_costs_more() && gather_.curve.is_monotone(); }

  State extend(const State& state, std::uint32_t begin, std::uint32_t end) const {
    return {scatter_.extend(state[0], begin, end),
            state[1] + gather_.time(bytes_between(workload_, begin, end))};
  }
  Time bound(const State& state, std::uint32_t cut) const {
    return std::max(workload_.backward_total, scatter_.bound(state[0], cut)) + state[1] + least_gather_[cut];
  }

 private:
  const Workload& workload_;
  Channel scatter_;
  const CollectiveCost& gather_;
  std::vector<Time> least_gather_;
};

/// How many beginnings a cut may keep: the work grows with the square of that and of the number of gradients.
/// Enough for models as they are; where it is not, the plan says by how much it may be off.
std::size_t most_kept(std::uint32_t gradients) {
  constexpr double kWork = 4e9;
  constexpr double kLeast = 8;
  return static_cast<std::size_t>(std::max(kLeast, std::sqrt(kWork) / gradients));
}

template <typename Problem>
OptimalGroups solve(const Problem& problem) {
  return ParetoSearch(problem, most_kept(problem.count())).run();
}

}  // namespace

OptimalGroups optimal_for_channel(const Workload& workload, const std::vector<Time>& ready, Time soon_enough,
                                  const CollectiveCost& cost) {
  return solve(ChannelProblem(workload, ready, soon_enough, cost));
}

OptimalGroups optimal_for_two_phases(const Workload& workload, const Costs& costs, const Extras& extras) {
  return solve(TwoPhaseProblem(workload, costs, extras));
}

OptimalGroups optimal_for_separate_phases(const Workload& workload, const Costs& costs) {
  return solve(SeparatePhasesProblem(workload, costs));
}

}  // namespace planner
