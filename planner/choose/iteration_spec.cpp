#include "planner/choose/iteration_spec.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace planner {
namespace {

using core::CollectiveKind;

/// The longest time that all collectives of one kind may take, coding included, under any grouping.
double max_us(const Workload& workload, const TransferCost& transfer, CollectiveKind kind) {
  const double bytes = transfer.wire_bytes(kind, payload_of_all(workload));
  const std::size_t count = workload.gradients.size();
  const CollectiveCost& cost = transfer.costs_of(transfer.carrier(kind)).of(transfer.carrier(kind));
  const bool is_closed = !cost.is_measured && transfer.transfer().compressor.is_none();
  return is_closed ? static_cast<double>(count - 1) * cost.curve.startup_us() + cost.curve.us(bytes)
                   : transfer.max_in_groups_us(kind, payload_of_all(workload), count);
}

/// Throws Unsupported if some grouping could reach half of the range of sim::Time, or one kind of collective
/// a quarter: planners add up times without checks.
void check_planning(const IterationSpec& spec, const TransferCost& transfer) {
  const Conditions& conditions = spec.setting.conditions;
  const auto steps = static_cast<std::uint32_t>(conditions.accumulation_steps);
  double all = 0;
  const Program program = spec.program(1);
  for (const Op& op : program.ops) {
    const double us = program.runs(op, steps) * max_us(spec.workload, transfer, op.kind);
    if (us > sim::kMaxUs / 4)
      throw Unsupported(fmt::format("collectives that take at most {} us in all, however tensors are grouped",
                                    sim::kMaxUs / 4),
                        fmt::format("up to {:.6g}", us));
    all += us;
  }
  if (spec.slows())
    all = (all + sim::to_us(spec.workload.backward_total)) *
          (1 + std::max(spec.overlap.compute_slowdown, spec.overlap.communication_slowdown));
  if (all > sim::kMaxUs / 2) too_long(all);
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
      options(for_model(its_options, workload)),
      transfers(std::move(its_transfers)),
      waited_batches(program(1).reduces_each_batch ? setting.conditions.accumulation_steps - 1 : 0),
      in_partitions(is_in_partitions) {
  for (const TransferCost& transfer : transfers) check_planning(*this, transfer);
}

}  // namespace planner
