// A given number of groups of equal tensor counts; the first in backward order are one larger.

#include <algorithm>

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/knobs.hpp"

namespace planner {
namespace {

Groups split(const Workload& workload, std::int64_t wanted) {
  const std::uint32_t tensors = workload.gradient_count();
  const auto count = static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, tensors));
  Groups groups;
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t size = tensors / count + (i < tensors % count ? 1 : 0);
    groups.push_back({.begin = begin, .end = begin + size});
    begin += size;
  }
  return groups;
}

std::optional<std::int64_t> next_count(const Workload& workload, const Groups& groups, std::int64_t count) {
  return groups.size() < workload.gradient_count() ? std::optional(count + 1) : std::nullopt;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "count"});
  const std::int64_t count = fusion_integer(field, "count", 1, core::kMaxElements, 8);
  return [count](const FusionRequest& request) { return split(request.workload, count); };
}

}  // namespace

FusionKind equal_groups() { return {"groups", "count groups of equal tensor counts", read}; }

Knob equal_groups_knob() { return {.name = "groups", .is_count = true, .groups = split, .next = next_count}; }

}  // namespace planner
