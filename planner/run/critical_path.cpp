#include "planner/run/critical_path.hpp"

#include <algorithm>
#include <utility>

namespace planner {

using sim::Time;

void PathTracker::pauses(std::size_t worker, Time begin) {
  constexpr std::size_t kMaxBreaks = 32;
  std::vector<Time>& before = before_[worker];
  if (before.size() == kMaxBreaks) before.erase(before.begin());
  before.push_back(since_[worker]);
  since_[worker] = begin;
}

Time PathTracker::since(std::size_t worker, Time time) const {
  if (since_[worker] < time) return since_[worker];
  const std::vector<Time>& before = before_[worker];
  for (std::size_t i = before.size(); i-- > 0;)
    if (before[i] < time) return before[i];
  return since_[worker];
}

void PathTracker::meets(std::span<const Time> ready, Time end) {
  const auto last = static_cast<std::size_t>(std::ranges::max_element(ready) - ready.begin());
  meets({.begins = {ready[last]},
         .since = {since(last, ready[last])},
         .ends = {end},
         .origins = {static_cast<std::uint32_t>(last)}});
}

void PathTracker::meets(Meeting meeting) {
  kept_ += meeting.ends.size();
  meetings_.push_back(std::move(meeting));
  constexpr std::size_t kMaxKept = (std::size_t{256} << 20U) / (3 * sizeof(Time) + sizeof(std::uint32_t));
  while (kept_ > kMaxKept && meetings_.size() > 1) forget();
}

void PathTracker::forget() {
  kept_ -= meetings_.front().ends.size();
  known_from_ = std::max(known_from_, *std::ranges::max_element(meetings_.front().ends));
  meetings_.pop_front();
  ++forgotten_;
}

/// If several meetings qualify, returns the last.
std::optional<std::size_t> PathTracker::meeting_that_ends(std::size_t worker, Time time,
                                                          std::size_t below) const {
  for (std::size_t i = std::min(meetings_.size(), below); i-- > 0;)
    if (meetings_[i].ends[at(meetings_[i], worker)] == time) return i;
  return std::nullopt;
}

const PathTracker::Meeting* PathTracker::rank_by_rank(std::size_t meeting) const {
  if (meeting < forgotten_) return nullptr;
  const Meeting& found = meetings_[meeting - forgotten_];
  return found.ends.size() > 1 ? &found : nullptr;
}

CriticalPath PathTracker::path(std::span<const Time> begins, std::span<const Time> ends) const {
  const auto last = static_cast<std::size_t>(std::ranges::max_element(ends) - ends.begin());
  // the last iteration is covered even if not all of it is known
  const auto known =
      std::find_if(begins.begin(), begins.end() - 1, [&](Time begin) { return begin >= known_from_; });
  CriticalPath out = {.iterations = static_cast<std::size_t>(begins.end() - known),
                      .from = *known,
                      .to = ends[last],
                      .computing = std::vector<Time>(since_.size()),
                      .sending = std::vector<Time>(since_.size())};
  constexpr std::size_t kAhead = 4096;  // most meetings come after the one that releases them, but ticks are
                                        // recorded ahead
  Time time = out.to;
  std::size_t worker = last;
  Time since = since_[last];
  std::size_t below = meetings_.size();
  while (time > out.from) {
    if (const auto found = meeting_that_ends(worker, time, below)) {
      const Meeting& meeting = meetings_[*found];
      const std::uint32_t origin = meeting.origins[at(meeting, worker)];
      if (origin >= since_.size()) break;  // too far apart to be recorded
      if (meeting.ends.size() > 1)
        out.crossings.push_back(
            {.meeting = forgotten_ + *found, .from = origin, .to = static_cast<std::uint32_t>(worker)});
      worker = origin;
      const Time begin = meeting.begins[at(meeting, worker)];
      since = meeting.since[at(meeting, worker)];
      out.communicating += time - std::max(begin, out.from);
      below = begin < time ? *found + kAhead : *found;  // avoids cycles of zero length
      time = begin;
    } else if (time <= known_from_) {
      break;  // a dropped collective may have ended here
    } else if (since < time) {
      out.computing[worker] += time - std::max(since, out.from);
      time = since;
    } else {
      break;  // the worker has continued with something else since
    }
  }
  out.untraced = std::max(Time::zero(), time - out.from);
  return out;
}

}  // namespace planner
