#include "planner/graph/lower.hpp"

#include <algorithm>

#include "planner/graph/iterations.hpp"

namespace planner {

using core::CollectiveKind;
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

std::uint64_t TaskLabel::packed() const {
  return (std::uint64_t{iteration} << 40U) | (std::uint64_t{item} << 8U) | static_cast<std::uint64_t>(kind);
}

TaskLabel TaskLabel::unpack(std::uint64_t label) {
  return {.kind = Kind{static_cast<std::uint8_t>(label & 0xffU)},
          .iteration = static_cast<std::uint32_t>(label >> 40U),
          .item = static_cast<std::uint32_t>(label >> 8U)};
}

std::optional<CollectiveKind> TaskLabel::collective(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return CollectiveKind::all_reduce;
    case Kind::reduce_scatter: return CollectiveKind::reduce_scatter;
    case Kind::all_gather:
    case Kind::backward_gather:
    case Kind::forward_gather: return CollectiveKind::all_gather;
    default: return {};
  }
}

Time at_mark(const std::vector<TaskId>& mark, const sim::Timeline& timeline) {
  Time at{};
  for (const TaskId task : mark) at = std::max(at, timeline.spans[sim::index(task)].end);
  return at;
}

Lowered lower(const Job& job) {
  GraphWriter writer(job);
  const bool is_for_passes = std::ranges::any_of(job.program.ops, [](const Op& op) {
    return op.issue == Issue::forward || op.issue == Issue::backward;
  });
  if (is_for_passes)
    add_iterations_for_passes(writer);
  else
    add_iterations_for_gradients(writer);
  return std::move(writer).finish();
}

namespace {

/// The update of what lies between two places in the gradients' bytes.
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
