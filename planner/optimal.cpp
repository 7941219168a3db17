#include "planner/optimal.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

namespace planner {
namespace {

using sim::Time;

/// With `groups` more groups everything can still end in time if the channel is free by `free_by`.
struct Way {
  std::uint32_t groups;
  Time free_by;
};

class Search {
 public:
  Search(const Workload& workload, const std::vector<Time>& ready, Time soon_enough,
         const CollectiveCost& cost)
      : count_(workload.gradient_count()),
        bytes_(workload.bytes_before),
        ready_(ready),
        cost_(cost),
        monotone_(cost.curve.is_monotone()) {
    find_soonest_ends();
    deadline_ = std::max(soonest_.back(), soon_enough);
    find_ways();
  }

  /// The way with the fewest groups, each group as short as that allows.
  OptimalGroups result() const {
    Groups out;
    std::uint32_t begin = 0;
    Time channel{};
    for (std::uint32_t left = ways_.front().front().groups; left > 0; --left) {
      std::uint32_t end = begin + 1;
      while (!is_way(begin, end, channel, left - 1)) ++end;
      channel = std::max(channel, ready_[end - 1]) + cost(begin, end);
      out.push_back({.begin = begin, .end = end});
      begin = end;
    }
    assert(begin == count_);
    return {.groups = std::move(out), .end = channel};
  }

 private:
  Time cost(std::uint32_t begin, std::uint32_t end) const { return cost_.time(bytes_[end] - bytes_[begin]); }

  void find_soonest_ends() {
    soonest_.assign(count_ + 1, Time::max());
    soonest_[0] = Time::zero();
    for (std::uint32_t end = 1; end <= count_; ++end) {
      for (std::uint32_t begin = end; begin-- > 0;) {
        const Time group = cost(begin, end);
        if (monotone_ && ready_[end - 1] + group >= soonest_[end]) break;
        soonest_[end] = std::min(soonest_[end], std::max(soonest_[begin], ready_[end - 1]) + group);
      }
    }
  }

  /// From the last gradient back: for each cut, the ways to end by the deadline from there, fewer groups
  /// against a later start. Cuts that cannot be reached in time are left without any.
  void find_ways() {
    ways_.resize(count_ + 1);
    ways_[count_] = {{.groups = 0, .free_by = deadline_}};
    std::vector<Time> latest;  // by number of groups
    for (std::uint32_t begin = count_; begin-- > 0;) {
      std::fill(latest.begin(), latest.end(), Time::min());
      for (std::uint32_t end = begin + 1; end <= count_; ++end) {
        if (ways_[end].empty()) continue;
        const Time group = cost(begin, end);
        if (monotone_ && soonest_[begin] + group > deadline_) break;
        const Time needed = std::max(soonest_[begin], ready_[end - 1]) + group;
        for (auto way = ways_[end].rbegin(); way != ways_[end].rend() && way->free_by >= needed; ++way) {
          if (latest.size() <= way->groups + 1) latest.resize(way->groups + 2, Time::min());
          latest[way->groups + 1] = std::max(latest[way->groups + 1], way->free_by - group);
        }
      }
      for (std::uint32_t groups = 0; groups < latest.size(); ++groups)
        if (latest[groups] != Time::min() &&
            (ways_[begin].empty() || latest[groups] > ways_[begin].back().free_by))
          ways_[begin].push_back({.groups = groups, .free_by = latest[groups]});
    }
    assert(!ways_.front().empty());
  }

  bool is_way(std::uint32_t begin, std::uint32_t end, Time channel, std::uint32_t groups_after) const {
    const Time ends = std::max(channel, ready_[end - 1]) + cost(begin, end);
    return std::any_of(ways_[end].begin(), ways_[end].end(),
                       [&](const Way& way) { return way.groups <= groups_after && way.free_by >= ends; });
  }

  std::uint32_t count_;
  const std::vector<std::int64_t>& bytes_;
  const std::vector<Time>& ready_;
  const CollectiveCost& cost_;
  bool monotone_;
  std::vector<Time> soonest_;  // that the channel can be free at each cut
  Time deadline_{};
  std::vector<std::vector<Way>> ways_;  // by cut; more groups, later free_by
};

}  // namespace

OptimalGroups optimal_groups(const Workload& workload, const std::vector<Time>& ready, Time soon_enough,
                             const CollectiveCost& cost) {
  return Search(workload, ready, soon_enough, cost).result();
}

}  // namespace planner
