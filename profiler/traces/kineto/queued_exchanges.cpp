#include "profiler/traces/kineto/queued_exchanges.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <unordered_map>

namespace kineto {
namespace {

using Launches = std::multiset<std::int64_t>;

/// The collectives of a process group at one moment, by when they were launched.
struct Group {
  Launches running;
  Launches exchanging;  ///< exchanges of passes that run
  Launches queued;      ///< exchanges of passes that were launched and do not run yet
  std::optional<std::int64_t> first;

  std::optional<std::int64_t> first_launch() const {
    std::optional<std::int64_t> out;
    if (!exchanging.empty()) out = *exchanging.begin();
    if (running.empty()) return out;
    const auto waiting = queued.upper_bound(*running.begin());
    if (waiting != queued.end()) out = std::min(out.value_or(*waiting), *waiting);
    return out;
  }
};

enum class Happens : std::uint8_t { launch, start, end };

struct Event {
  std::int64_t at_ns = 0;
  std::uint32_t collective = 0;
  Happens what = Happens::launch;
};

std::vector<Event> events_of(const std::vector<GroupCollective>& all) {
  std::vector<Event> out;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const GroupCollective& each = all[i];
    const bool queues = each.is_exchange_of_pass && each.launched_ns < each.ran.first;
    if (queues) out.push_back({each.launched_ns, i, Happens::launch});
    if (queues || each.ran.first < each.ran.second) out.push_back({each.ran.first, i, Happens::start});
    if (each.ran.first < each.ran.second) out.push_back({each.ran.second, i, Happens::end});
  }
  std::sort(out.begin(), out.end(), [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
  return out;
}

void remove_one(Launches& from, std::int64_t launch) { from.erase(from.find(launch)); }

void apply(const GroupCollective& each, Happens what, Group& group) {
  const bool has_length = each.ran.first < each.ran.second;
  switch (what) {
    case Happens::launch: group.queued.insert(each.launched_ns); break;
    case Happens::start:
      if (each.is_exchange_of_pass && each.launched_ns < each.ran.first)
        remove_one(group.queued, each.launched_ns);
      if (has_length) group.running.insert(each.launched_ns);
      if (has_length && each.is_exchange_of_pass) group.exchanging.insert(each.launched_ns);
      break;
    case Happens::end:
      remove_one(group.running, each.launched_ns);
      if (each.is_exchange_of_pass) remove_one(group.exchanging, each.launched_ns);
      break;
  }
}

}  // namespace

std::vector<LaunchedSpan> queued_exchanges(const std::vector<GroupCollective>& all) {
  std::unordered_map<std::uint32_t, Group> groups;
  Launches first_of_groups;
  std::vector<LaunchedSpan> out;
  std::int64_t before_ns = 0;
  for (const Event& event : events_of(all)) {
    if (!first_of_groups.empty() && before_ns < event.at_ns) {
      const std::int64_t launched = *first_of_groups.begin();
      if (!out.empty() && out.back().span.second == before_ns && out.back().launched_ns == launched)
        out.back().span.second = event.at_ns;
      else
        out.push_back({.span = {before_ns, event.at_ns}, .launched_ns = launched});
    }
    before_ns = event.at_ns;
    Group& group = groups[all[event.collective].group];
    apply(all[event.collective], event.what, group);
    const std::optional<std::int64_t> first = group.first_launch();
    if (first == group.first) continue;
    if (group.first) remove_one(first_of_groups, *group.first);
    if (first) first_of_groups.insert(*first);
    group.first = first;
  }
  return out;
}

}  // namespace kineto
