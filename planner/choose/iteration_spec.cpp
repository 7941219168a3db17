#include "planner/choose/iteration_spec.hpp"

#include <utility>

#include <fmt/format.h>

namespace planner {
namespace {

using core::CollectiveKind;

/// Throws Unsupported if some grouping could reach a quarter of the range of sim::Time.
void check_planning(const Workload& workload, const TransferCost& transfer, CollectiveKind kind) {
  const auto bytes = static_cast<double>(workload.bytes());
  const auto count = static_cast<double>(workload.gradients.size());
  const CollectiveCost& cost = transfer.costs().of(transfer.carrier(kind));
  const bool is_closed = !cost.is_measured && transfer.transfer().compressor.is_none();
  const double us = is_closed ? (count - 1) * cost.curve.startup_us() + cost.curve.us(bytes)
                              : count * transfer.max_us(kind, workload.bytes());
  if (us > sim::kMaxUs / 4)
    throw Unsupported(fmt::format("collectives that take at most {} us in all, however tensors are grouped",
                                  sim::kMaxUs / 4),
                      fmt::format("up to {:.6g}", us));
}

}  // namespace

IterationSpec::IterationSpec(const Setting& its_setting, const Pipeline& its_pipeline,
                             const PipelineOptions& its_options, std::vector<TransferCost> its_transfers,
                             bool is_in_partitions)
    : setting(its_setting),
      workload(setting.workload),
      costs(setting.costs),
      extras(setting.extras),
      overlap(setting.conditions.overlap),
      pipeline(its_pipeline),
      options(its_options),
      transfers(std::move(its_transfers)),
      in_partitions(is_in_partitions) {
  for (const Op& op : program(1).ops)
    for (const TransferCost& transfer : transfers) check_planning(workload, transfer, op.kind);
}

}  // namespace planner
