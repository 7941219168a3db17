#include "planner/run/follow_path.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include "planner/run/messages_of.hpp"
#include "sim/cluster/deciding.hpp"

namespace planner {
namespace {

using sim::Time;

/// Finds whose messages the path runs through, for collectives entered after `path.from`.
void look_into_crossings(const Setting& setting, const Executable& executable, const PathTracker& tracker,
                         CriticalPath& path) {
  constexpr std::uint64_t kMaxWork = std::uint64_t{1} << 24U;
  const cluster::Links links = links_of(setting);
  std::uint64_t work = 0;
  for (const Crossing& crossing : path.crossings) {
    const PathTracker::Meeting& meeting = *tracker.rank_by_rank(crossing.meeting);
    const cluster::Collective how = collective_of(setting, executable, TaskLabel::unpack(meeting.label));
    const auto* rounds = std::get_if<std::unique_ptr<const cluster::BytePattern>>(&how);
    if (rounds == nullptr || meeting.begins[crossing.from] < path.from) continue;
    work += cluster::deciding_work(**rounds, links);
    if (work > kMaxWork) return;
    for (const cluster::DecidingMessage& message :
         cluster::deciding_messages(**rounds, links, meeting.collective, meeting.begins, crossing.to))
      path.sending[message.from] += message.duration;
  }
}

}  // namespace

CriticalPath follow_path(const Setting& setting, const Executable& executable, const PathTracker& tracker,
                         const std::vector<std::vector<Time>>& marks) {
  std::vector<Time> begins;
  for (std::size_t mark = first_counted(executable.lowered); mark + 1 < marks.size(); ++mark)
    begins.push_back(*std::ranges::max_element(marks[mark]));
  CriticalPath path = tracker.path(begins, marks.back());
  if (!path.crossings.empty() && !setting.conditions.topology)
    look_into_crossings(setting, executable, tracker, path);
  return path;
}

}  // namespace planner
