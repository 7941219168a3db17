// A prefix of groups is known by when it leaves each channel free. From the first cut to the last, those are
// kept that no other is as good as on both channels, and only if the rest can end in time on each channel:
// limits come from the value of a good grouping. The simplest of the best groupings is then found from the
// end to the start, as the Pareto engine does it.
//
// Two neighbouring groups never take less time than one that holds the gradients of both. So where that one
// can be on its way in time, the two are not looked at.

#include "planner/choose/straight_channels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace planner {
namespace {

using sim::Time;

constexpr std::size_t kBoth = 2;

bool is_no_later(const ChannelEnds& a, const ChannelEnds& b) { return a[0] <= b[0] && a[1] <= b[1]; }

ChannelEnds later(const ChannelEnds& a, const ChannelEnds& b) {
  return {std::max(a[0], b[0]), std::max(a[1], b[1])};
}

class Search {
 public:
  Search(const TwoChannels& given, std::size_t max_kept)
      : given_(given), count_(given.channels.front().count()), max_kept_(max_kept), latest_(count_ + 1) {}

  std::optional<OptimalGroups> run() {
    find_earliest();
    find_limits();
    if (!find_value()) return std::nullopt;
    return OptimalGroups{.groups = simplest(), .value = best_, .largest_front = largest_front_};
  }

 private:
  /// The prefixes kept at a cut.
  struct Front {
    std::vector<ChannelEnds> ends;
    ChannelEnds min{Time::max(), Time::max()};  ///< of all of them, on each channel
  };

  /// The rest can end in time from every state up to `latest`.
  struct Ending {
    ChannelEnds latest{};
    std::uint32_t cut = 0;
    std::uint32_t end = 0;    ///< of its first group
    std::uint32_t after = 0;  ///< the ending that begins where that group ends
    std::uint32_t groups = 0;
  };

  ChannelEnds time(std::uint32_t begin, std::uint32_t end) const {
    return {given_.channels[0].time(begin, end), given_.channels[1].time(begin, end)};
  }
  ChannelEnds ready(std::uint32_t gradient) const {
    return {given_.channels[0].ready[gradient], given_.channels[1].ready[gradient]};
  }

  static ChannelEnds extended(const ChannelEnds& ends, const ChannelEnds& ready, const ChannelEnds& time) {
    const ChannelEnds start = later(ends, ready);
    return {start[0] + time[0], start[1] + time[1]};
  }

  Time value_of(const Groups& groups) const {
    ChannelEnds ends{};
    for (const Group& group : groups)
      ends = extended(ends, ready(group.end - 1), time(group.begin, group.end));
    return given_.value(ends);
  }

  /// The earliest ends of each channel alone, and the better of what is best for either.
  void find_earliest() {
    best_ = value_of({{.begin = 0, .end = count_}});
    for (std::size_t i = 0; i < kBoth; ++i) {
      earliest_[i] = earliest_ends(given_.channels[i]);
      const Groups groups = simplest_groups(given_.channels[i], earliest_[i], earliest_[i].back());
      best_ = std::min(best_, value_of(groups));
    }
  }

  /// The latest ends with which the rest may be as good as the best.
  void find_limits() {
    const ChannelEnds by = given_.latest({earliest_[0].back(), earliest_[1].back()}, best_);
    for (std::size_t i = 0; i < kBoth; ++i) {
      const std::vector<Time> latest = latest_starts(given_.channels[i], earliest_[i], by[i]);
      for (std::uint32_t cut = 0; cut <= count_; ++cut) latest_[cut][i] = latest[cut];
    }
  }

  /// Whether no cut would have to keep too many.
  bool find_value() {
    fronts_.assign(count_ + 1, {});
    fronts_.front() = {.ends = {ready(0)}, .min = ready(0)};
    reached_ = {0};
    for (std::uint32_t end = 1; end <= count_; ++end) {
      if (latest_[end][0] == Time::min() || latest_[end][1] == Time::min()) continue;
      find_front(end);
      const std::size_t size = fronts_[end].ends.size();
      if (size > max_kept_) return false;
      largest_front_ = std::max(largest_front_, size);
      if (size > 0 && end < count_) reached_.push_back(end);
    }
    for (const ChannelEnds& ends : fronts_.back().ends) best_ = std::min(best_, given_.value(ends));
    return !fronts_.back().ends.empty();
  }

  /// The longest groups come first: most others end no sooner.
  void find_front(std::uint32_t end) {
    Front& front = fronts_[end];
    const ChannelEnds soonest = ready(end - 1);
    const auto is_too_long = [&](std::uint32_t begin) {
      return !is_no_later(extended({}, soonest, time(begin, end)), latest_[end]);
    };
    auto first = std::partition_point(reached_.begin(), reached_.end(), is_too_long);
    // From where both channels are idle, longer groups begin no sooner.
    for (auto idle = reached_.end(); idle != first;)
      if (is_idle(fronts_[*--idle], soonest)) first = idle;
    const ChannelEnds next = end == count_ ? ChannelEnds{} : ready(end);  // the next group waits so long
    for (auto begin = first; begin != reached_.end(); ++begin) {
      const Front& before = fronts_[*begin];
      const ChannelEnds takes = time(*begin, end);
      const auto after = [&](const ChannelEnds& ends) { return later(extended(ends, soonest, takes), next); };
      if (before.ends.size() > 1 && !is_useful(after(before.min), end, front)) continue;
      for (const ChannelEnds& ends : before.ends) keep(after(ends), end, front);
    }
    for (const ChannelEnds& ends : front.ends)
      front.min = {std::min(front.min[0], ends[0]), std::min(front.min[1], ends[1])};
  }

  static bool is_idle(const Front& front, const ChannelEnds& soonest) {
    return is_no_later(front.min, soonest) && std::ranges::any_of(front.ends, [&](const ChannelEnds& ends) {
             return is_no_later(ends, soonest);
           });
  }

  bool is_useful(const ChannelEnds& ends, std::uint32_t end, const Front& front) const {
    if (!is_no_later(ends, latest_[end])) return false;
    for (const ChannelEnds& known : front.ends)
      if (is_no_later(known, ends)) return false;
    return true;
  }

  void keep(const ChannelEnds& ends, std::uint32_t end, Front& front) const {
    if (!is_useful(ends, end, front) || given_.value(bound(ends, end)) > best_) return;
    const auto is_worse = [&](const ChannelEnds& known) { return is_no_later(ends, known); };
    front.ends.erase(std::remove_if(front.ends.begin(), front.ends.end(), is_worse), front.ends.end());
    front.ends.push_back(ends);
  }

  /// One group is the least that is left.
  ChannelEnds bound(ChannelEnds ends, std::uint32_t cut) const {
    if (cut == count_) return ends;
    const ChannelEnds rest = time(cut, count_);
    return {ends[0] + rest[0], ends[1] + rest[1]};
  }

  /// As ParetoSearch::find_simplest() does it: at each cut the latest starts of the rest, and with how few
  /// groups.
  Groups simplest() {
    by_cut_.assign(count_ + 1, {});
    for (const ChannelEnds& ends : fronts_.back().ends)
      if (given_.value(ends) == best_) keep({.latest = given_.as_good(ends), .cut = count_});
    for (std::uint32_t end = count_; end > 0; --end) {
      const auto from = static_cast<std::uint32_t>(all_.size());
      all_.insert(all_.end(), by_cut_[end].begin(), by_cut_[end].end());
      merged_from_.resize(all_.size(), count_);
      for (std::uint32_t after = from; after < all_.size(); ++after) put_groups_before(after);
    }
    Groups out;
    for (const Ending* at = &by_cut_.front().front(); at->cut < count_; at = &all_[at->after])
      out.push_back({.begin = at->cut, .end = at->end});
    return out;
  }

  void put_groups_before(std::uint32_t after) {
    const Ending ending = all_[after];
    const ChannelEnds soonest = ready(ending.cut - 1);
    std::uint32_t& from = merged_from_[after];
    if (ending.cut < count_) from = std::min(ending.cut, merged_from_[ending.after]);
    const auto last = std::lower_bound(reached_.begin(), reached_.end(), from);
    for (auto i = std::make_reverse_iterator(last); i != reached_.rend(); ++i) {
      const ChannelEnds takes = time(*i, ending.cut);
      const ChannelEnds latest = {ending.latest[0] - takes[0], ending.latest[1] - takes[1]};
      if (!is_no_later(soonest, latest)) return;  // nor is any longer group
      from = *i;
      keep({.latest = latest, .cut = *i, .end = ending.cut, .after = after, .groups = ending.groups + 1});
    }
  }

  void keep(const Ending& ending) {
    std::vector<Ending>& known = by_cut_[ending.cut];
    for (const Ending& other : known)
      if (covers(other, ending)) return;
    const auto is_early_enough = [&](const ChannelEnds& ends) { return is_no_later(ends, ending.latest); };
    if (std::ranges::none_of(fronts_[ending.cut].ends, is_early_enough)) return;
    const auto is_covered = [&](const Ending& other) { return covers(ending, other); };
    known.erase(std::remove_if(known.begin(), known.end(), is_covered), known.end());
    known.push_back(ending);
  }

  /// At the start all endings are early enough, and the first group decides.
  static bool covers(const Ending& a, const Ending& b) {
    if (a.groups > b.groups) return false;
    if (a.cut == 0) return a.groups < b.groups || a.end <= b.end;
    return is_no_later(b.latest, a.latest);
  }

  const TwoChannels& given_;
  std::uint32_t count_;
  std::size_t max_kept_;
  std::array<std::vector<Time>, kBoth> earliest_;  // by channel and cut: no prefix ends sooner
  std::vector<ChannelEnds> latest_;     // by cut: from later ends nothing as good as `best_` is reached
  Time best_{};                         // of a good grouping, then of the best
  std::vector<Front> fronts_;           // by cut
  std::vector<std::uint32_t> reached_;  // the cuts with anything in their fronts, without the last
  std::size_t largest_front_ = 0;
  std::vector<Ending> all_;
  std::vector<std::vector<Ending>> by_cut_;
  // By ending: from the groups that begin there or later it is no use to make two.
  std::vector<std::uint32_t> merged_from_;
};

/// Whether two groups always take more time than one, also when rounded.
bool merging_saves(const StraightChannel& channel) {
  constexpr double kRounding = 0x1p-40;
  const double all_us = channel.curve.us(channel.wire_bytes(0, channel.count()));
  constexpr double kPicosecondsPerUs = 1e6;
  return channel.curve.saved_by_merging_us() * kPicosecondsPerUs > 3 + all_us * kPicosecondsPerUs * kRounding;
}

}  // namespace

std::optional<OptimalGroups> optimal_groups(const TwoChannels& given, std::size_t max_kept) {
  if (!std::ranges::all_of(given.channels, merging_saves)) return std::nullopt;
  return Search(given, max_kept).run();
}

}  // namespace planner
