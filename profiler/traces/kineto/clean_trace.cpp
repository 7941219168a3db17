#include "profiler/traces/kineto/clean_trace.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace kineto {
namespace {

/// Where an event stands among the others: calls of modules are around operators, and of two operators the
/// one around the other has the lower number.
auto place(const Range& range) {
  return std::tuple(range.start_ns, -range.end_ns, range.kind != RangeKind::module, range.external);
}
auto place(const Launch& launch) { return std::tuple(launch.at_ns, launch.end_ns, launch.correlation); }
auto place(const Kernel& kernel) {
  return std::tuple(kernel.start_ns, kernel.end_ns, kernel.correlation, kernel.external);
}

/// What else tells it from others at its place.
auto identity(const Range& range) {
  return std::tuple(range.kind, range.sequence, range.name, range.thread, range.shapes);
}
auto identity(const Launch& launch) { return launch.thread; }
auto identity(const Kernel& kernel) { return std::tuple(kernel.name, kernel.bytes); }

/// Ranges of no length and without a number may be different ones: times are rounded.
bool is_one(const Range& range) { return range.external != 0 || range.end_ns > range.start_ns; }
bool is_one(const Launch& /*launch*/) { return true; }
bool is_one(const Kernel& /*kernel*/) { return true; }

/// Sorts events, and returns how many it drops as duplicates.
template <typename Event>
std::int64_t sort_and_drop_duplicates(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return place(a) < place(b); });
  std::set<decltype(identity(std::declval<const Event&>()))> seen;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (kept > 0 && place(events[kept - 1]) == place(events[i])) {
      if (seen.empty()) seen.insert(identity(events[kept - 1]));
      if (!seen.insert(identity(events[i])).second && is_one(events[i])) continue;
    } else if (!seen.empty()) {
      seen.clear();
    }
    if (kept != i) events[kept] = std::move(events[i]);
    ++kept;
  }
  const auto dropped = static_cast<std::int64_t>(events.size() - kept);
  events.resize(kept);
  return dropped;
}

/// Buffers that the profiler lost leave kernels at 0, long before the host began.
void drop_kernels_without_time(Trace& trace) {
  constexpr std::int64_t kLongNs = 1'000'000'000;
  if (trace.launches.empty() || trace.launches.front().at_ns < kLongNs) return;
  const auto is_lost = [](const Kernel& kernel) { return kernel.start_ns == 0; };
  for (const Kernel& kernel : trace.kernels)
    if (is_lost(kernel)) trace.lost.push_back(kernel.correlation);
  trace.kernels.erase(std::remove_if(trace.kernels.begin(), trace.kernels.end(), is_lost),
                      trace.kernels.end());
}

}  // namespace

void clean(Trace& trace) {
  trace.duplicates += sort_and_drop_duplicates(trace.ranges) + sort_and_drop_duplicates(trace.launches) +
                      sort_and_drop_duplicates(trace.kernels);
  drop_kernels_without_time(trace);
}

std::vector<std::string> dropped_text(const Trace& trace) {
  std::vector<std::string> out;
  if (trace.is_cut_off)
    out.push_back(
        fmt::format("the file is cut off after {} events: the rest is lost, and the last step with "
                    "kernels is left out",
                    trace.events));
  if (const std::size_t count = trace.lost.size(); count > 0)
    out.push_back(fmt::format(
        "{} {} no time in the trace: the steps that launched such work are left out, unless all did", count,
        count == 1 ? "kernel or copy has" : "kernels or copies have"));
  if (trace.broken > 0)
    out.push_back(fmt::format("{} no time, or one that is no number, or {} less than 0 us: {} left out",
                              trace.broken == 1 ? "1 event has" : fmt::format("{} events have", trace.broken),
                              trace.broken == 1 ? "lasts" : "last",
                              trace.broken == 1 ? "it is" : "they are"));
  if (trace.repaired > 0)
    out.push_back(
        fmt::format("{} place{} of the file {} no JSON: numbers that are none are taken as not given, and "
                    "other bytes as '?'",
                    trace.repaired, trace.repaired == 1 ? "" : "s", trace.repaired == 1 ? "is" : "are"));
  if (trace.duplicates > 0)
    out.push_back(fmt::format("the trace holds {} event{} twice, which count{} once", trace.duplicates,
                              trace.duplicates == 1 ? "" : "s", trace.duplicates == 1 ? "s" : ""));
  return out;
}

}  // namespace kineto
