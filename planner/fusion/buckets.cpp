// DDP's buckets: append a tensor, then close the bucket when it has reached the cap. Overshoots, never
// splits.

#include "planner/fusion.hpp"
#include "traces/limits.hpp"

namespace planner {
namespace {

constexpr std::int64_t kDefaultCap = 25 << 20;

Fuse read(const models::Field& field) {
  allow_fusion_keys(field, {"kind", "cap_bytes", "first_cap_bytes"});
  const std::int64_t cap = fusion_integer(field, "cap_bytes", 1, traces::kMostBytes, kDefaultCap);
  const std::int64_t first_cap = fusion_integer(field, "first_cap_bytes", 1, traces::kMostBytes, cap);
  return [cap, first_cap](const FusionRequest& request) {
    const std::vector<std::int64_t>& bytes = request.workload.bytes_before;
    Groups groups;
    std::uint32_t begin = 0;
    for (std::uint32_t end = 1; end <= request.workload.gradient_count(); ++end) {
      const bool is_full = bytes[end] - bytes[begin] >= (groups.empty() ? first_cap : cap);
      if (!is_full && end < request.workload.gradient_count()) continue;
      groups.push_back({.begin = begin, .end = end});
      begin = end;
    }
    return groups;
  };
}

}  // namespace

FusionKind buckets() { return {"buckets", "append, then close at >= cap_bytes (DDP)", read}; }

}  // namespace planner
