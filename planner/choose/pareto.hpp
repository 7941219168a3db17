// The engine of the exact planner: chooses groups in backward order and keeps, at each cut, only the Pareto
// front of prefixes, those that no other prefix dominates in every state variable of the rest.

#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/choose/rules.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// The state after a prefix of groups: times, where greater times never improve the rest.
template <std::size_t Size>
using ParetoState = std::array<sim::Time, Size>;

struct OptimalGroups {
  Groups groups;
  sim::Time value{};              ///< what the problem minimises
  std::size_t largest_front = 0;  ///< number of prefixes kept at one cut; 0 if the result was found without
                                  ///< fronts
  /// Bound on the loss against a better grouping where a front was truncated; 0 if the plan is exact.
  sim::Time optimality_gap{};
};

/// Finds the grouping with the least value; among equals the one with the fewest groups, then the one with
/// the fewest gradients in its first group.
///
/// A Problem defines the states and how they grow:
///   static constexpr std::size_t kStates         number of times in a state
///   std::uint32_t count(), transfers()           numbers of gradients and of transfers
///   ParetoState start()                          the state before the first group
///   Step step(begin, end, transfer)              the data of one group that extend() needs
///   ParetoState extend(state, step)              the state after that group; monotone in `state`
///   sim::Time bound(state, cut)                  lower bound of the final value; at the last cut, the value
///   ParetoState least(cut)                       lower bound, per time, of all states at this cut
///   bool longer_costs_more()                     whether extend() from least() never decreases if a group
///                                                begins earlier
/// and if states grow only by sums and maxima:
///   ParetoState settle(state, cut)               the state with each time raised as far as it cannot affect
///                                                the rest
///   std::optional<ParetoState> latest(state, step)   the greatest state that extend() keeps within this
///                                                one; none if there is none
///   std::int64_t slack_counts()                  bound on the growth of the value, as a multiple of a slack
///                                                that is added to every time of a state
///   ParetoState latest_end(state, value)         the greatest state at the last cut, not below this one of
///                                                that value, whose value is not greater
///   ParetoState greatest_end(value)              upper bound, per time, of states at the last cut whose
///                                                value is at most this
template <typename Problem>
class ParetoSearch {
 public:
  /// Truncates fronts longer than `max_kept`. The rules must allow at least one grouping. Without latest(),
  /// the searches for the simplest of the best keep no more than `max_kept_simplest`.
  ParetoSearch(const Problem& problem, const GroupRules& rules, std::size_t max_kept,
               std::size_t max_kept_simplest = SIZE_MAX)
      : problem_(problem),
        rules_(rules),
        completions_(rules, problem.count()),
        max_kept_(max_kept),
        max_kept_simplest_(std::min(max_kept, max_kept_simplest)),
        is_open_(problem.count() + 1, true),
        limits_(problem.count() + 1, all_times(sim::Time::max())),
        min_groups_left_(problem.count() + 1) {}

  OptimalGroups run() {
    // Each pass prunes more prefixes than the one before: first reachable values, roughly and then exactly;
    // then the fewest groups and the shortest first group.
    start_from_what_is_plain();
    find_roughly();
    if constexpr (kGoesBack) find_limits();
    largest_front_ = 0;
    min_dropped_ = sim::Time::max();
    find<Aim::value>(max_kept_);
    min_possible_ = std::min(min_dropped_, best_.value);
    if constexpr (kGoesBack) {
      // A truncated front may have lost the best path and many of the paths close to it.
      if (min_dropped_ > best_.value)
        find_simplest();
      else
        narrow_what_is_possible();
    } else {
      find_min_groups_left();
      if (!rules_.count()) find<Aim::groups>(max_kept_simplest_);
      find<Aim::first_group>(max_kept_simplest_);
    }
    return {.groups = best_.groups,
            .value = best_.value,
            .largest_front = largest_front_,
            .optimality_gap = best_.value - min_possible_};
  }

 private:
  using State = ParetoState<Problem::kStates>;
  using Step = typename Problem::Step;

  static constexpr std::uint32_t kBetweenLooks = 8;  // checking limits costs about as much as adding a group
  static constexpr bool kGoesBack = requires(const Problem& problem, const State& state, const Step& step) {
    problem.latest(state, step);
  };

  struct Node {
    State state{};
    sim::Time bound{};
    std::uint32_t cut = 0;
    std::uint32_t before = 0;  ///< the node whose last group ends where this one's group begins
    std::uint32_t groups = 0;
    std::uint32_t first = 0;     ///< gradients in the first group
    std::uint32_t transfer = 0;  ///< of the last group
  };

  static State all_times(sim::Time time) {
    State out{};
    out.fill(time);
    return out;
  }

  static bool is_no_worse(const State& a, const State& b) {
    for (std::size_t i = 0; i < Problem::kStates; ++i)
      if (a[i] > b[i]) return false;
    return true;
  }

  /// After a front was truncated, searches again with a slack: a prefix also represents those that are better
  /// by at most the slack. The value grows by at most the slack of each group, so the result bounds how much
  /// better the optimum can be. A smaller slack gives a tighter bound if fronts stay short.
  void narrow_what_is_possible() {
    for (const double share : {1e-2, 3e-3, 1e-3, 3e-4}) {
      if (min_possible_ == best_.value) return;
      const double max_off = share * static_cast<double>(best_.value.count());
      slack_ = sim::Time(static_cast<std::int64_t>(max_off / problem_.count() /
                                                   static_cast<double>(problem_.slack_counts())));
      min_dropped_ = sim::Time::max();
      find<Aim::value>(max_kept_);
      const std::int64_t off = slack_.count() * problem_.count() * problem_.slack_counts();
      slack_ = sim::Time::zero();
      if (min_dropped_ < best_.value) return;
      min_possible_ = std::max(min_possible_, best_.value - sim::Time(off));
    }
  }

  bool is_as_good(const Node& a, const Node& b) const {
    for (std::size_t i = 0; i < Problem::kStates; ++i)
      if (a.state[i] > b.state[i] + slack_) return false;
    return !rules_.count() || a.groups == b.groups;
  }

  enum class Aim { value, groups, first_group };

  static bool is_no_less_simple(const Node& a, const Node& b) {
    return a.groups != b.groups ? a.groups < b.groups : a.first <= b.first;
  }

  /// Additional criteria of an aim only break ties between prefixes that are equal in everything else.
  template <Aim kAim>
  bool dominates(const Node& a, const Node& b) const {
    if (!is_no_worse(a.state, b.state)) return false;
    if (rules_.count() && a.groups != b.groups) return false;
    if (kAim == Aim::value && (kGoesBack || a.state != b.state))
      return true;  // the backward pass finds the simplest
    if (kAim == Aim::groups && (a.state != b.state || a.groups != b.groups)) return a.groups <= b.groups;
    return is_no_less_simple(a, b);
  }

  static bool is_better(const Node& a, const Node& b) {
    return a.bound != b.bound ? a.bound < b.bound : !is_no_less_simple(b, a);
  }

  struct Best {
    Groups groups;
    sim::Time value = sim::Time::max();
  };

  /// Tries one group and one group per gradient, as far as the rules allow.
  void start_from_what_is_plain() {
    Groups all = {{.begin = 0, .end = problem_.count()}};
    Groups none;
    for (std::uint32_t i = 0; i < problem_.count(); ++i) none.push_back({.begin = i, .end = i + 1});
    for (Groups* groups : {&all, &none}) {
      if (rules_.count().value_or(groups->size()) != groups->size()) continue;
      State state = problem_.start();
      bool allowed = true;
      for (const Group& group : *groups) {
        allowed = allowed && rules_.allows(group.begin, group.end);
        state = problem_.extend(state, problem_.step(group.begin, group.end, 0));
      }
      const sim::Time value = problem_.bound(state, problem_.count());
      if (allowed && value < best_.value) best_ = {.groups = std::move(*groups), .value = value};
    }
  }

  /// Searches a few evenly spaced cuts, then repeatedly the neighbourhood of the best cuts: a cheap upper
  /// bound.
  void find_roughly() {
    constexpr std::size_t kFew = 2;
    constexpr std::uint32_t kCuts = 32;
    constexpr std::uint32_t kCloser = 4;
    std::uint32_t apart = (problem_.count() + kCuts - 1) / kCuts;
    close_all();
    open_near(0, apart, problem_.count());
    find<Aim::value>(std::min(kFew, max_kept_));
    for (std::uint32_t reach = apart; reach > 1; reach = apart) {
      apart = (reach + kCloser - 1) / kCloser;
      close_all();
      for (const Group& group : best_.groups) open_near(group.end, apart, reach);
      if (2 * std::count(is_open_.begin(), is_open_.end(), true) > problem_.count())
        break;  // the next search would be no
                // cheaper
      find<Aim::value>(std::min(kFew, max_kept_));
    }
    is_open_.assign(is_open_.size(), true);
    if (best_.groups.empty()) find<Aim::value>(std::min(kFew, max_kept_));  // the rules need other cuts
  }

  void close_all() {
    is_open_.assign(is_open_.size(), false);
    is_open_.back() = true;
  }

  /// Opens this cut and, at steps of `apart`, those within `reach` of it.
  void open_near(std::uint32_t cut, std::uint32_t apart, std::uint32_t reach) {
    const std::uint32_t from = cut - std::min(cut, reach) / apart * apart;
    const std::uint32_t to = std::min(problem_.count(), cut + reach);
    for (std::uint32_t at = from; at <= to; at += apart) is_open_[at] = true;
  }

  /// Computes, from the end to the start, the latest times from which a value no worse than the best known is
  /// reachable.
  void find_limits() {
    if (best_.groups.empty()) return;
    limits_.assign(limits_.size(), all_times(sim::Time::min()));
    limits_.back() = problem_.greatest_end(best_.value);
    for (std::uint32_t end = problem_.count(); end > 0; --end) {
      if (limits_[end] == all_times(sim::Time::min())) continue;  // no state there is early enough
      const std::uint32_t soonest = rules_.soonest_begin(end);
      for (std::uint32_t begin = end; begin-- > soonest;)
        if (!add_limits(begin, end) && problem_.longer_costs_more()) break;
    }
  }

  /// Whether any group from begin to end is early enough.
  bool add_limits(std::uint32_t begin, std::uint32_t end) {
    if (!rules_.allows(begin, end)) return true;
    bool is_soon_enough = false;
    for (std::uint32_t transfer = 0; transfer < problem_.transfers(); ++transfer) {
      const std::optional<State> latest = problem_.latest(limits_[end], problem_.step(begin, end, transfer));
      if (!latest || !is_no_worse(problem_.start(), *latest)) continue;
      is_soon_enough = true;
      for (std::size_t i = 0; i < Problem::kStates; ++i)
        limits_[begin][i] = std::max(limits_[begin][i], (*latest)[i]);
    }
    return is_soon_enough;
  }

  /// The prefixes kept at one cut; nodes of a cut are contiguous.
  struct Front {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    State min{};  ///< minimum over all of them, for each time
  };

  std::span<const Node> at(std::uint32_t cut) const {
    return std::span(nodes_).subspan(fronts_[cut].begin, fronts_[cut].end - fronts_[cut].begin);
  }

  template <Aim kAim>
  void find(std::size_t max_kept) {
    nodes_.assign(1, {.state = problem_.start()});
    fronts_.assign(1, {.begin = 0, .end = 1, .min = problem_.start()});
    reached_.assign(1, 0);
    for (std::uint32_t end = 1; end <= problem_.count(); ++end) {
      front_.clear();
      if (is_open_[end])
        each_begin<kAim>(end, reached_.size(), [&](std::uint32_t begin) {
          for (std::uint32_t transfer = 0; transfer < problem_.transfers(); ++transfer)
            try_groups<kAim>(begin, end, transfer);
        });
      cut_short<kAim>(max_kept);
      largest_front_ = std::max(largest_front_, front_.size());
      keep_front();
    }
    keep_best_end();
  }

  /// Stores the front as that of the next cut.
  void keep_front() {
    const auto size = static_cast<std::uint32_t>(nodes_.size());
    Front front = {.begin = size,
                   .end = size + static_cast<std::uint32_t>(front_.size()),
                   .min = all_times(sim::Time::max())};
    for (const Node& node : front_)
      for (std::size_t i = 0; i < Problem::kStates; ++i) front.min[i] = std::min(front.min[i], node.state[i]);
    if (!front_.empty()) reached_.push_back(static_cast<std::uint32_t>(fronts_.size()));
    fronts_.push_back(front);
    nodes_.insert(nodes_.end(), front_.begin(), front_.end());
  }

  /// Visits those of the first `count` reached cuts at which a group that ends at `end` may begin, shortest
  /// group first, until longer groups cannot improve the result.
  template <Aim kAim, typename Visit>
  void each_begin(std::uint32_t end, std::size_t count, Visit visit) const {
    const std::uint32_t soonest = rules_.soonest_begin(end);
    for (std::size_t i = 0; i < count && reached_[count - 1 - i] >= soonest; ++i) {
      const std::uint32_t begin = reached_[count - 1 - i];
      if (i % kBetweenLooks == kBetweenLooks - 1 && is_hopeless<kAim>(begin, end)) break;
      if (rules_.allows(begin, end)) visit(begin);
    }
  }

  /// Whether no group that ends at `end` and begins at `begin` or earlier can improve the result.
  template <Aim kAim>
  bool is_hopeless(std::uint32_t begin, std::uint32_t end) const {
    if (!problem_.longer_costs_more() || rules_.count()) return false;
    for (std::uint32_t transfer = 0; transfer < problem_.transfers(); ++transfer)
      if (!is_useless<kAim>(extend(problem_.min(begin), problem_.step(begin, end, transfer), end), end))
        return false;
    return true;
  }

  State extend(const State& state, const Step& step, std::uint32_t end) const {
    const State after = problem_.extend(state, step);
    if constexpr (kGoesBack) return problem_.settle(after, end);
    return after;
  }

  template <Aim kAim>
  void try_groups(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer) {
    const Step step = problem_.step(begin, end, transfer);
    const Front& front = fronts_[begin];
    if (front.end - front.begin > 1 && is_useless<kAim>(extend(front.min, step, end), end)) return;
    for (std::uint32_t before = front.begin; before < front.end; ++before)
      try_group<kAim>(before, end, transfer, step);
  }

  /// Whether no prefix whose state is at least this can improve the result.
  template <Aim kAim>
  bool is_useless(const State& min, std::uint32_t end) const {
    if (!is_no_worse(min, limits_[end]) || problem_.bound(min, end) > best_.value) return true;
    if (kAim != Aim::value || rules_.count()) return false;  // it may still need fewer groups
    return std::any_of(front_.begin(), front_.end(), [&](const Node& node) {
      return (kGoesBack || node.state != min) && is_no_worse(node.state, min);
    });
  }

  template <Aim kAim>
  void try_group(std::uint32_t before, std::uint32_t end, std::uint32_t transfer, const Step& step) {
    const std::uint32_t groups = nodes_[before].groups + 1;
    if (!completions_.possible(end, groups)) return;
    if (kAim != Aim::value && groups + min_groups_left_[end] > best_.groups.size()) return;
    const std::uint32_t first = before == 0 ? end : nodes_[before].first;
    if (kAim == Aim::first_group && first > best_.groups.front().end) return;
    const State state = extend(nodes_[before].state, step, end);
    if (!is_no_worse(state, limits_[end])) return;
    Node node = {
        .state = state, .cut = end, .before = before, .groups = groups, .first = first, .transfer = transfer};
    for (std::size_t i = 0; i < front_.size(); ++i) {
      if (!dominates<kAim>(front_[i], node) && !(slack_ > sim::Time::zero() && is_as_good(front_[i], node)))
        continue;
      if (i > 0)
        std::swap(front_[i], front_[i / 2]);  // a node that dominates one node often dominates the
                                              // next
      return;
    }
    node.bound = problem_.bound(node.state, end);
    if (node.bound > best_.value) return;
    const auto is_dominated = [&](const Node& other) { return dominates<kAim>(node, other); };
    front_.erase(std::remove_if(front_.begin(), front_.end(), is_dominated), front_.end());
    front_.push_back(node);
  }

  /// Keeps the nodes with the least bounds; when the value is known, half of them, and of the others those
  /// with the fewest groups.
  template <Aim kAim>
  void cut_short(std::size_t max_kept) {
    if (front_.size() <= max_kept) return;
    std::stable_sort(front_.begin(), front_.end(), is_better);
    if (kAim != Aim::value)
      std::stable_sort(front_.begin() + static_cast<std::ptrdiff_t>(max_kept / 2), front_.end(),
                       [](const Node& a, const Node& b) { return a.groups < b.groups; });
    if (kAim == Aim::value) min_dropped_ = std::min(min_dropped_, front_[max_kept].bound);
    front_.resize(max_kept);
  }

  /// A lower bound of the number of groups from each cut to the end on any path to the best value, from the
  /// least state at that cut.
  void find_min_groups_left() {
    constexpr std::uint32_t kNoTransfer = UINT32_MAX / 2;
    std::fill(min_groups_left_.begin(), min_groups_left_.end(), kNoTransfer);
    min_groups_left_.back() = 0;
    for (std::uint32_t begin = problem_.count(); begin-- > 0;) {
      if (at(begin).empty()) continue;
      const State& min = fronts_[begin].min;
      std::uint32_t& left = min_groups_left_[begin];
      for (std::uint32_t end = begin + 1; end <= problem_.count(); ++end)
        if (min_groups_left_[end] + 1 < left && rules_.allows(begin, end) && can_be_best(min, begin, end))
          left = min_groups_left_[end] + 1;
    }
  }

  bool can_be_best(const State& min, std::uint32_t begin, std::uint32_t end) const {
    for (std::uint32_t transfer = 0; transfer < problem_.transfers(); ++transfer)
      if (problem_.bound(problem_.extend(min, problem_.step(begin, end, transfer)), end) <= best_.value)
        return true;
    return false;
  }

  // ---- the simplest of the best groupings, from the end to the start

  /// The best value is reachable with this number of further groups from every state that is at most
  /// `latest`.
  struct Ending {
    State latest{};
    std::uint32_t cut = 0;
    std::uint32_t end = 0;    ///< of its first group
    std::uint32_t after = 0;  ///< the ending that begins where that group ends
    std::uint32_t groups = 0;
    std::uint32_t transfer = 0;  ///< of its first group
  };

  /// Given the best value and the reachable states, goes back from the end and finds, at each cut, the
  /// greatest states from which the best value is reachable, and with how few groups.
  void find_simplest() {
    std::vector<Ending> all;
    std::vector<std::vector<Ending>> by_cut(problem_.count() + 1);
    for (const Node& node : at(problem_.count()))
      if (node.bound == best_.value)
        add_ending({.latest = problem_.latest_end(node.state, best_.value), .cut = problem_.count()},
                   by_cut.back());
    for (std::uint32_t end = problem_.count(); end > 0; --end) {
      const auto from = static_cast<std::uint32_t>(all.size());
      if (by_cut[end].size() > max_kept_) {
        std::stable_sort(by_cut[end].begin(), by_cut[end].end(),
                         [](const Ending& a, const Ending& b) { return a.groups < b.groups; });
        by_cut[end].resize(max_kept_);
      }
      all.insert(all.end(), by_cut[end].begin(), by_cut[end].end());
      std::vector<Ending>().swap(by_cut[end]);
      if (from == all.size()) continue;
      const auto before = std::lower_bound(reached_.begin(), reached_.end(), end) - reached_.begin();
      each_begin<Aim::groups>(end, static_cast<std::size_t>(before), [&](std::uint32_t begin) {
        for (std::uint32_t transfer = 0; transfer < problem_.transfers(); ++transfer)
          add_endings(begin, transfer, all, from, by_cut[begin]);
      });
    }
    assert(by_cut.front().size() <= 1);
    if (by_cut.front().empty()) return;  // lost because a front was truncated: the rough result remains
    best_.groups.clear();
    for (const Ending* at = &by_cut.front().front(); at->cut < problem_.count(); at = &all[at->after])
      best_.groups.push_back({.begin = at->cut, .end = at->end, .transfer = at->transfer});
  }

  /// Prepends one more group to each ending from index `from` on; these begin at the same cut.
  void add_endings(std::uint32_t begin, std::uint32_t transfer, const std::vector<Ending>& all,
                   std::uint32_t from, std::vector<Ending>& known) const {
    const Step step = problem_.step(begin, all[from].cut, transfer);
    for (std::uint32_t after = from; after < all.size(); ++after) {
      const std::optional<State> latest = problem_.latest(all[after].latest, step);
      if (latest)
        add_ending({.latest = *latest,
                    .cut = begin,
                    .end = all[from].cut,
                    .after = after,
                    .groups = all[after].groups + 1,
                    .transfer = transfer},
                   known);
    }
  }

  void add_ending(const Ending& ending, std::vector<Ending>& known) const {
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (!covers(known[i], ending)) continue;
      if (i > 0) std::swap(known[i], known[i / 2]);
      return;
    }
    const std::span<const Node> reached = at(ending.cut);
    const bool is_reached = std::any_of(reached.begin(), reached.end(), [&](const Node& node) {
      return is_no_worse(node.state, ending.latest) &&
             (!rules_.count() || node.groups + ending.groups == *rules_.count());
    });
    if (!is_reached) return;
    known.erase(
        std::remove_if(known.begin(), known.end(), [&](const Ending& b) { return covers(ending, b); }),
        known.end());
    known.push_back(ending);
  }

  /// Whether ending `a` makes `b` redundant. At the start all endings are reachable, and the first group
  /// decides.
  bool covers(const Ending& a, const Ending& b) const {
    if (rules_.count() ? a.groups != b.groups : a.groups > b.groups) return false;
    if (a.cut == 0) return a.groups < b.groups || a.end <= b.end;
    return is_no_worse(b.latest, a.latest);
  }

  /// A pass whose front was truncated may end with a worse result than the one before, or with none.
  void keep_best_end() {
    const std::span<const Node> ends = at(problem_.count());
    const auto end = std::min_element(ends.begin(), ends.end(), is_better);
    if (end == ends.end()) return;
    if (!best_.groups.empty()) {
      const Node known = {.bound = best_.value,
                          .groups = static_cast<std::uint32_t>(best_.groups.size()),
                          .first = best_.groups.front().end};
      if (!is_better(*end, known)) return;
    }
    best_ = {.groups = {}, .value = end->bound};
    for (const Node* node = &*end; node->cut > 0; node = &nodes_[node->before])
      best_.groups.push_back(
          {.begin = nodes_[node->before].cut, .end = node->cut, .transfer = node->transfer});
    std::reverse(best_.groups.begin(), best_.groups.end());
  }

  const Problem& problem_;
  const GroupRules& rules_;
  Completions completions_;
  std::size_t max_kept_;
  std::size_t max_kept_simplest_;
  std::vector<bool> is_open_;                   // by cut: whether a group may end there in this pass
  std::vector<State> limits_;                   // by cut: states greater in any time cannot improve the
                                                // result
  std::vector<Node> nodes_;                     // the first is the start
  std::vector<Front> fronts_;                   // by cut, in nodes_
  std::vector<std::uint32_t> reached_;          // the cuts with anything in their fronts
  std::vector<Node> front_;                     // of the current cut
  Best best_;                                   // prunes every node that is not better
  std::vector<std::uint32_t> min_groups_left_;  // by cut
  std::size_t largest_front_ = 0;
  sim::Time min_dropped_ = sim::Time::max();
  sim::Time min_possible_{};  // lower bound of the value over all groupings
  sim::Time slack_{};
};

}  // namespace planner
