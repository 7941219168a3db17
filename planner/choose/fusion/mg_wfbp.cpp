// The greedy algorithm of MG-WFBP (Algorithm 1 of the paper): merges a gradient into the next lower one if
// that one is ready before the startup of this one's collective would end. The paper calls it optimal; it is
// not (docs/method.md).

#include <algorithm>

#include "planner/choose/fusion.hpp"

namespace planner {
namespace {

/// Uses the uncompressed wfbp time line with all-reduce costs for any pipeline.
Groups greedy(const FusionRequest& request) {
  const CollectiveCost& cost = request.costs.of(core::CollectiveKind::all_reduce);
  const Workload& workload = request.workload;
  const TransferCost& own = request.transfers.front();
  const sim::Time startup = sim::from_us(cost.curve.startup_us());
  Groups groups;
  sim::Time channel{};  // end of the groups already closed
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    const sim::Time start = std::max(channel, workload.gradients[i].ready);
    const bool last = i + 1 == workload.gradient_count();
    if (!last && workload.gradients[i + 1].ready < sim::after(start, startup)) continue;
    const double bytes = own.wire_bytes(core::CollectiveKind::all_reduce,
                                        workload.bytes_before[i + 1] - workload.bytes_before[begin]);
    channel = sim::after(start, sim::from_us(cost.curve.us(bytes)));
    groups.push_back({.begin = begin, .end = i + 1});
    begin = i + 1;
  }
  return groups;
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return greedy;
}

}  // namespace

FusionKind mg_wfbp_fusion() {
  return {.name = "mg-wfbp", .summary = "the greedy of the MG-WFBP paper", .read = read, .searches = true};
}

}  // namespace planner
