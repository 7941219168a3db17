#include "planner/choose/fusion/partitions.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/choose/fusion.hpp"

namespace planner {
namespace {

void check_count(const Workload& workload, std::int64_t partition_bytes) {
  constexpr std::int64_t kMaxPartitions = 1'000'000;
  std::int64_t count = 0;
  for (const Gradient& gradient : workload.gradients) count += (gradient.bytes - 1) / partition_bytes + 1;
  if (count > kMaxPartitions)
    throw Unsupported(fmt::format("partition_bytes that make at most {} partitions", kMaxPartitions),
                      fmt::format("{}, which make {}", partition_bytes, count));
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return [](const FusionRequest& request) {
    return partitions_of(request.workload, request.options.partition_bytes);
  };
}

}  // namespace

Groups partitions_of(const Workload& workload, std::int64_t partition_bytes) {
  check_count(workload, partition_bytes);
  Groups parts;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    const std::int64_t all = workload.gradients[i].bytes;
    for (std::int64_t from = 0; from < all; from += partition_bytes) {
      parts.push_back({.begin = i, .end = i + 1});
      if (all > partition_bytes)
        parts.back().part = Part{.from = from, .bytes = std::min(partition_bytes, all - from)};
    }
  }
  return parts;
}

FusionKind partitions() { return {kPartitions, "each tensor in parts, for pipeline priority alone", read}; }

}  // namespace planner
