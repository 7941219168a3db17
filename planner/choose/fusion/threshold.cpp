// Horovod's fusion buffer: add gradients while the sum stays within the cap. With a cycle time, every tick
// takes the gradients that became ready since the last one, and its groups are issued at the tick.

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/keys.hpp"
#include "planner/choose/fusion/knobs.hpp"

namespace planner {
namespace {

using sim::Time;

constexpr std::int64_t kDefaultCap = 128 << 20;

/// The first tick at or after `ready`; ticks count from the start of backward.
Time tick_of(Time ready, Time cycle) {
  if (cycle == Time::zero()) return Time::zero();
  const std::int64_t ticks = ready / cycle + (ready % cycle == Time::zero() ? 0 : 1);
  return ticks * cycle;
}

/// Without a cycle: the least cap with which the first tensor of a group still fits into the previous group.
std::optional<std::int64_t> next_cap(const Workload& workload, const Groups& groups, std::int64_t /*cap*/) {
  std::optional<std::int64_t> next;
  for (std::size_t i = 1; i < groups.size(); ++i)
    next = lower_of(next,
                    workload.bytes_before[groups[i].begin + 1] - workload.bytes_before[groups[i - 1].begin]);
  return next;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "cap_bytes", "cycle_us"});
  const std::int64_t cap = fusion_integer(field, "cap_bytes", 1, core::kMaxBytes, kDefaultCap);
  const Time cycle = sim::from_us(fusion_number(field, "cycle_us", 0, core::kMaxTimeUs, 0));
  return [cap, cycle](const FusionRequest& request) { return under_threshold(request.workload, cap, cycle); };
}

}  // namespace

Groups under_threshold(const Workload& workload, std::int64_t cap, Time cycle) {
  const std::vector<std::int64_t>& bytes = workload.bytes_before;
  Groups groups;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    const Time tick = tick_of(workload.gradients[i].ready, cycle);
    const bool fits =
        !groups.empty() && groups.back().tick == tick && bytes[i + 1] - bytes[groups.back().begin] <= cap;
    if (fits)
      groups.back().end = i + 1;
    else
      groups.push_back({.begin = i, .end = i + 1, .tick = tick});
  }
  return groups;
}

FusionKind threshold() {
  return {"threshold", "add while the sum is <= cap_bytes, every cycle_us (Horovod)", read};
}

Knob threshold_knob() {
  return {.name = "threshold",
          .groups = [](const Workload& workload,
                       std::int64_t cap) { return under_threshold(workload, cap, Time::zero()); },
          .next = next_cap};
}

}  // namespace planner
