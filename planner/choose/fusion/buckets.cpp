// DDP's buckets: append a tensor, then close the bucket when it has reached the cap. A bucket may exceed the
// cap, and no tensor is split.

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/knobs.hpp"

namespace planner {
namespace {

constexpr std::int64_t kDefaultCap = 25 << 20;

Groups in_buckets(const Workload& workload, std::int64_t cap, std::int64_t first_cap) {
  const std::vector<std::int64_t>& bytes = workload.bytes_before;
  Groups groups;
  std::uint32_t begin = 0;
  for (std::uint32_t end = 1; end <= workload.gradient_count(); ++end) {
    const bool is_full = bytes[end] - bytes[begin] >= (groups.empty() ? first_cap : cap);
    if (!is_full && end < workload.gradient_count()) continue;
    groups.push_back({.begin = begin, .end = end});
    begin = end;
  }
  return groups;
}

/// The cap closed all buckets but the last; the smallest of them grows as soon as the cap exceeds its size.
std::optional<std::int64_t> next_cap(const Workload& workload, const Groups& groups, std::int64_t /*cap*/) {
  std::optional<std::int64_t> next;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i)
    next = lower_of(next, workload.bytes_before[groups[i].end] - workload.bytes_before[groups[i].begin] + 1);
  return next;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "cap_bytes", "first_cap_bytes"});
  const std::int64_t cap = fusion_integer(field, "cap_bytes", 1, core::kMaxBytes, kDefaultCap);
  const std::int64_t first_cap = fusion_integer(field, "first_cap_bytes", 1, core::kMaxBytes, cap);
  return
      [cap, first_cap](const FusionRequest& request) { return in_buckets(request.workload, cap, first_cap); };
}

}  // namespace

FusionKind buckets() { return {"buckets", "append, then close at >= cap_bytes (DDP)", read}; }

Knob buckets_knob() {
  return {.name = "buckets",
          .groups = [](const Workload& workload, std::int64_t cap) { return in_buckets(workload, cap, cap); },
          .next = next_cap};
}

}  // namespace planner
