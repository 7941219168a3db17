// The exact planner's engine: groups are chosen in backward order, and at each cut only those beginnings are
// kept that no other is at least as good as in everything that the rest depends on (a Pareto front).

#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// What is known of a grouping's beginning: times, of which more never helps the rest.
template <std::size_t Size>
using ParetoState = std::array<sim::Time, Size>;

struct OptimalGroups {
  Groups groups;
  sim::Time value{};              ///< what the problem minimises
  std::size_t largest_front = 0;  ///< beginnings kept at one cut
  /// By how much a better grouping may have been missed where a front was cut short; 0: the plan is exact.
  sim::Time may_be_off_by{};
};

/// Finds the grouping with the least value; among equals the one with the fewest groups, then the one with
/// the fewest gradients in its first group.
///
/// A Problem says what a state is and how it grows:
///   static constexpr std::size_t kStates         how many times make a state
///   std::uint32_t count()                        gradients
///   ParetoState start()                          before the first group
///   ParetoState extend(state, begin, end)        after one more group; no time of it falls when one of state
///   grows sim::Time bound(state, cut)                  no ending from here has less value; at the last cut,
///   the value ParetoState least(cut)                       no state at this cut is less in anything bool
///   longer_costs_more()                     extend() of a group that begins sooner, from least(), is no less
template <typename Problem>
class ParetoSearch {
 public:
  /// Fronts longer than `most_kept` are cut short.
  ParetoSearch(const Problem& problem, std::size_t most_kept)
      : problem_(problem), most_kept_(most_kept), least_groups_left_(problem.count() + 1) {}

  OptimalGroups run() {
    // First what can be reached at all, by a few beginnings a cut and then by all of them; then with how few
    // groups; then with how short a first one. Each pass knows better than the one before which beginnings
    // lead nowhere.
    constexpr std::size_t kFew = 8;
    best_ = better_of_all_and_none();
    find<Aim::value>(std::min(kFew, most_kept_));
    largest_front_ = 0;
    least_dropped_ = sim::Time::max();
    find<Aim::value>(most_kept_);
    find_least_groups_left();
    find<Aim::groups>(most_kept_);
    find<Aim::first_group>(most_kept_);
    OptimalGroups out = {
        .groups = best_.groups, .value = best_.value, .largest_front = largest_front_, .may_be_off_by = {}};
    if (least_dropped_ < out.value) out.may_be_off_by = out.value - least_dropped_;
    return out;
  }

 private:
  using State = ParetoState<Problem::kStates>;

  struct Node {
    State state{};
    sim::Time bound{};
    std::uint32_t cut = 0;
    std::uint32_t before = 0;  ///< the node whose last group ends where this one's begins
    std::uint32_t groups = 0;
    std::uint32_t first = 0;  ///< gradients in the first group
  };

  static bool is_no_worse(const State& a, const State& b) {
    for (std::size_t i = 0; i < Problem::kStates; ++i)
      if (a[i] > b[i]) return false;
    return true;
  }

  enum class Aim { value, groups, first_group };

  static bool is_no_less_simple(const Node& a, const Node& b) {
    return a.groups != b.groups ? a.groups < b.groups : a.first <= b.first;
  }

  /// What an aim looks beyond counts only between beginnings that are equal in all else.
  template <Aim kAim>
  static bool dominates(const Node& a, const Node& b) {
    if (!is_no_worse(a.state, b.state)) return false;
    if (kAim == Aim::value && a.state != b.state) return true;
    if (kAim == Aim::groups && (a.state != b.state || a.groups != b.groups)) return a.groups <= b.groups;
    return is_no_less_simple(a, b);
  }

  static bool is_better(const Node& a, const Node& b) {
    return a.bound != b.bound ? a.bound < b.bound : !is_no_less_simple(b, a);
  }

  struct Best {
    Groups groups;
    sim::Time value{};
  };

  Best better_of_all_and_none() const {
    Best all = {.groups = {{.begin = 0, .end = problem_.count()}}};
    all.value = problem_.bound(problem_.extend(problem_.start(), 0, problem_.count()), problem_.count());
    Best none;
    State state = problem_.start();
    for (std::uint32_t i = 0; i < problem_.count(); ++i) {
      state = problem_.extend(state, i, i + 1);
      none.groups.push_back({.begin = i, .end = i + 1});
    }
    none.value = problem_.bound(state, problem_.count());
    return none.value < all.value ? none : all;
  }

  /// Everything that is kept at one cut; nodes of a cut lie side by side.
  struct Front {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  std::span<const Node> at(std::uint32_t cut) const {
    return std::span(nodes_).subspan(fronts_[cut].begin, fronts_[cut].end - fronts_[cut].begin);
  }

  template <Aim kAim>
  void find(std::size_t most_kept) {
    nodes_.assign(1, {.state = problem_.start()});
    fronts_.assign(1, {.begin = 0, .end = 1});
    for (std::uint32_t end = 1; end <= problem_.count(); ++end) {
      front_.clear();
      for (std::uint32_t begin = end; begin-- > 0;) {
        constexpr std::uint32_t kBetweenLooks = 16;  // a look costs as much as a group
        if ((end - begin) % kBetweenLooks == 0 && is_hopeless<kAim>(begin, end)) break;
        for (std::uint32_t before = fronts_[begin].begin; before < fronts_[begin].end; ++before)
          try_group<kAim>(before, begin, end);
      }
      cut_short<kAim>(most_kept);
      largest_front_ = std::max(largest_front_, front_.size());
      const auto size = static_cast<std::uint32_t>(nodes_.size());
      fronts_.push_back({.begin = size, .end = size + static_cast<std::uint32_t>(front_.size())});
      nodes_.insert(nodes_.end(), front_.begin(), front_.end());
    }
    keep_best_end();
  }

  /// Whether no group that ends at `end` and begins at `begin` or sooner can be of use.
  template <Aim kAim>
  bool is_hopeless(std::uint32_t begin, std::uint32_t end) const {
    if (!problem_.longer_costs_more()) return false;
    const State least = problem_.extend(problem_.least(begin), begin, end);
    if (problem_.bound(least, end) > best_.value) return true;
    if (kAim != Aim::value) return false;  // it may still make do with fewer groups
    return std::any_of(front_.begin(), front_.end(), [&](const Node& node) {
      return node.state != least && is_no_worse(node.state, least);
    });
  }

  template <Aim kAim>
  void try_group(std::uint32_t before, std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t groups = nodes_[before].groups + 1;
    if (kAim != Aim::value && groups + least_groups_left_[end] > best_.groups.size()) return;
    const std::uint32_t first = before == 0 ? end : nodes_[before].first;
    if (kAim == Aim::first_group && first > best_.groups.front().end) return;
    Node node = {.state = problem_.extend(nodes_[before].state, begin, end),
                 .cut = end,
                 .before = before,
                 .groups = groups,
                 .first = first};
    for (const Node& other : front_)
      if (dominates<kAim>(other, node)) return;
    node.bound = problem_.bound(node.state, end);
    if (node.bound > best_.value) return;
    const auto is_dominated = [&](const Node& other) { return dominates<kAim>(node, other); };
    front_.erase(std::remove_if(front_.begin(), front_.end(), is_dominated), front_.end());
    front_.push_back(node);
  }

  /// Keeps those with the least bounds.
  template <Aim kAim>
  void cut_short(std::size_t most_kept) {
    if (front_.size() <= most_kept) return;
    std::stable_sort(front_.begin(), front_.end(), is_better);
    if (kAim == Aim::value) least_dropped_ = std::min(least_dropped_, front_[most_kept].bound);
    front_.resize(most_kept);
  }

  /// From each cut on, with all that is known of it at its least: no way to the best value has fewer groups.
  void find_least_groups_left() {
    constexpr std::uint32_t kNoWay = UINT32_MAX / 2;
    std::fill(least_groups_left_.begin(), least_groups_left_.end(), kNoWay);
    least_groups_left_.back() = 0;
    for (std::uint32_t begin = problem_.count(); begin-- > 0;) {
      if (at(begin).empty()) continue;
      const State least = least_at(begin);
      std::uint32_t& left = least_groups_left_[begin];
      for (std::uint32_t end = begin + 1; end <= problem_.count(); ++end)
        if (least_groups_left_[end] + 1 < left &&
            problem_.bound(problem_.extend(least, begin, end), end) <= best_.value)
          left = least_groups_left_[end] + 1;
    }
  }

  State least_at(std::uint32_t cut) const {
    State least = at(cut).front().state;
    for (const Node& node : at(cut))
      for (std::size_t i = 0; i < Problem::kStates; ++i) least[i] = std::min(least[i], node.state[i]);
    return least;
  }

  /// A pass whose front was cut short may end worse than the one before, or not at all.
  void keep_best_end() {
    const std::span<const Node> ends = at(problem_.count());
    const auto end = std::min_element(ends.begin(), ends.end(), is_better);
    if (end == ends.end()) return;
    const Node known = {.bound = best_.value,
                        .groups = static_cast<std::uint32_t>(best_.groups.size()),
                        .first = best_.groups.front().end};
    if (!is_better(*end, known)) return;
    best_ = {.groups = {}, .value = end->bound};
    for (const Node* node = &*end; node->cut > 0; node = &nodes_[node->before])
      best_.groups.push_back({.begin = nodes_[node->before].cut, .end = node->cut});
    std::reverse(best_.groups.begin(), best_.groups.end());
  }

  const Problem& problem_;
  std::size_t most_kept_;
  std::vector<Node> nodes_;                       // the first is the start
  std::vector<Front> fronts_;                     // by cut, in nodes_
  std::vector<Node> front_;                       // of the cut that is worked on
  Best best_;                                     // nothing worse is kept
  std::vector<std::uint32_t> least_groups_left_;  // by cut
  std::size_t largest_front_ = 0;
  sim::Time least_dropped_ = sim::Time::max();
};

}  // namespace planner
