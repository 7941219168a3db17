#include "planner/graph/lowered.hpp"

#include <algorithm>

namespace planner {

using sim::TaskId;
using sim::Time;

sim::StreamId Lowered::compute(std::size_t n) {
  return n == 0 ? kCompute : sim::StreamId{static_cast<std::uint32_t>(kShared + 2 * n)};
}

std::size_t Lowered::worker_of(sim::StreamId stream) {
  return stream == kCompute ? 0 : (sim::index(stream) - kShared) / 2;
}

sim::StreamId Lowered::channel(std::uint32_t n) {
  return n == 0 ? kChannel : sim::StreamId{static_cast<std::uint32_t>(kInput) + n};
}

bool Lowered::is_channel(sim::StreamId stream) const {
  if (stream == kChannel) return true;
  return channels > 1 && stream > kInput;
}

sim::StreamId Lowered::input(std::size_t n) {
  return n == 0 ? kInput : sim::StreamId{static_cast<std::uint32_t>(kShared + 2 * n + 1)};
}

Time at_mark(const std::vector<TaskId>& mark, const sim::Timeline& timeline) {
  Time at{};
  for (const TaskId task : mark) at = std::max(at, timeline.spans[sim::index(task)].end);
  return at;
}

namespace {

/// The update time of the bytes between two offsets in the gradients.
Time update_between(const Workload& workload, const Extras& extras, std::int64_t from, std::int64_t to) {
  const auto of_first = [&](std::int64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(workload.bytes());
    return sim::from_us(sim::to_us(extras.update) * share);
  };
  return of_first(to) - of_first(from);
}

}  // namespace

Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin, std::uint32_t end) {
  return update_between(workload, extras, workload.bytes_before[begin], workload.bytes_before[end]);
}

Time group_update(const Workload& workload, const Extras& extras, const Group& group) {
  if (!group.part) return group_update(workload, extras, group.begin, group.end);
  const std::int64_t from = workload.bytes_before[group.begin] + group.part->from;
  return update_between(workload, extras, from, from + group.part->bytes);
}

}  // namespace planner
