#include "planner/choose/local_search.hpp"

#include <algorithm>
#include <tuple>

namespace planner {
namespace {

class Search {
 public:
  Search(const LocalSearch& search, Groups from)
      : search_(search), best_{.groups = std::move(from), .value = {}} {
    best_.value = search.value(best_.groups);
  }

  Improved run() && {
    while (evaluations_ < search_.max_evaluations && step()) {
    }
    return std::move(best_);
  }

 private:
  /// Moves to the first better neighbour; false if there is none.
  bool step() {
    for (std::size_t g = 0; g < best_.groups.size(); ++g)
      if (merge(g) || move_cut(g) || split(g) || other_transfer(g)) return true;
    return false;
  }

  bool merge(std::size_t g) {
    if (g + 1 == best_.groups.size()) return false;
    Groups groups = best_.groups;
    groups[g].end = groups[g + 1].end;
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g) + 1);
    return take(std::move(groups));
  }

  bool move_cut(std::size_t g) {
    if (g + 1 == best_.groups.size()) return false;
    for (const int distance : {1, -1, 2, -2, 4, -4, 8, -8, 16, -16}) {
      const std::int64_t cut = std::int64_t{best_.groups[g].end} + distance;
      if (cut <= best_.groups[g].begin || cut >= best_.groups[g + 1].end) continue;
      Groups groups = best_.groups;
      groups[g].end = groups[g + 1].begin = static_cast<std::uint32_t>(cut);
      if (take(std::move(groups))) return true;
    }
    return false;
  }

  bool split(std::size_t g) {
    const Group group = best_.groups[g];
    constexpr std::uint32_t kPlaces = 8;
    const std::uint32_t apart = std::max(1U, (group.end - group.begin) / kPlaces);
    for (std::uint32_t cut = group.begin + apart; cut < group.end; cut += apart) {
      Groups groups = best_.groups;
      groups[g].end = cut;
      Group rest = group;
      rest.begin = cut;
      groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(g) + 1, rest);
      if (take(std::move(groups))) return true;
    }
    return false;
  }

  bool other_transfer(std::size_t g) {
    for (std::uint32_t transfer = 0; transfer < search_.transfers; ++transfer) {
      if (transfer == best_.groups[g].transfer) continue;
      Groups groups = best_.groups;
      groups[g].transfer = transfer;
      if (take(std::move(groups))) return true;
    }
    return false;
  }

  bool take(Groups groups) {
    if (evaluations_ >= search_.max_evaluations) return false;
    if (search_.rules.count().value_or(groups.size()) != groups.size()) return false;
    for (const Group& group : groups)
      if (!search_.rules.allows(group.begin, group.end)) return false;
    ++evaluations_;
    const sim::Time value = search_.value(groups);
    if (rank(groups, value) >= rank(best_.groups, best_.value)) return false;
    best_ = {.groups = std::move(groups), .value = value};
    return true;
  }

  static std::tuple<sim::Time, std::size_t, std::uint32_t> rank(const Groups& groups, sim::Time value) {
    return {value, groups.size(), groups.front().end};
  }

  const LocalSearch& search_;
  Improved best_;
  std::uint32_t evaluations_ = 0;
};

}  // namespace

Improved improve(const LocalSearch& search, Groups from) { return Search(search, std::move(from)).run(); }

}  // namespace planner
