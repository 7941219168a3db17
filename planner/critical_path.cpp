#include "planner/critical_path.hpp"

#include <algorithm>

namespace planner {

using sim::Time;

void PathTracker::computes(std::span<const Time> begins, std::span<const Time> ends) {
  Time asked = Time::min();  // most workers wait for the same meeting
  std::size_t answer = kNone;
  for (std::size_t n = 0; n < states_.size(); ++n) {
    State& state = states_[n];
    if (begins[n] > state.until) {
      if (begins[n] != asked) answer = meeting_that_ends(asked = begins[n]);
      state.since = begins[n];
      state.released_by = answer;
    }
    state.until = ends[n];
  }
}

void PathTracker::meets(std::span<const Time> ready, Time end) {
  const auto last = static_cast<std::size_t>(std::max_element(ready.begin(), ready.end()) - ready.begin());
  Meeting meeting = {.begin = ready[last], .end = end, .after = kNone, .last = last, .its = states_[last]};
  meeting.after = meeting_that_ends(meeting.begin);
  meetings_.push_back(meeting);
}

/// Ends rise but for ticks, which may lie further ahead than the collectives that follow.
std::size_t PathTracker::meeting_that_ends(Time at) const {
  constexpr std::size_t kMostBack = 4096;  // no iteration has more to come to
  const std::size_t stop = meetings_.size() > kMostBack ? meetings_.size() - kMostBack : 0;
  for (std::size_t i = meetings_.size(); i-- > stop;)
    if (meetings_[i].end == at) return i;
  return kNone;
}

CriticalPath PathTracker::between(Time from, std::span<const Time> ends) const {
  CriticalPath out = {.computing = std::vector<Time>(states_.size()), .communicating = {}, .untraced = {}};
  const auto last = static_cast<std::size_t>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  Time at = ends[last];
  std::size_t worker = last;
  State state = states_[last];
  std::size_t meeting = meeting_that_ends(at);
  const auto until_from = [&](Time begin) { return at - std::max(begin, from); };
  while (at > from) {
    if (meeting != kNone) {
      const Meeting& met = meetings_[meeting];
      out.communicating += until_from(met.begin);
      at = met.begin;
      worker = met.last;
      state = met.its;
      meeting = met.after;
      continue;
    }
    if (state.since >= at) {  // it went on to something else meanwhile
      out.untraced += until_from(from);
      break;
    }
    out.computing[worker] += until_from(state.since);
    at = state.since;
    meeting = state.released_by;
    if (meeting == kNone && at > from) {
      out.untraced += until_from(from);
      break;
    }
  }
  return out;
}

}  // namespace planner
