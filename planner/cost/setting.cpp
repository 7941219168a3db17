#include "planner/cost/setting.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/host_stream.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// The slowdown of the slowest existing worker; workers that are not stragglers have slowdown 1.
double worst_slowdown(const Conditions& conditions, std::int64_t workers) {
  double worst = 0;
  std::int64_t stragglers = 0;
  for (const Straggler& straggler : conditions.stragglers) {
    if (straggler.worker >= workers) continue;
    worst = std::max(worst, straggler.slowdown);
    ++stragglers;
  }
  return stragglers == workers ? worst : std::max(worst, 1.0);
}

/// The time of the all-gather of the parallel tensor operator: 4 bytes per layer.
Time lars_gather(const core::Profile& profile, const Costs& costs, const Conditions& conditions) {
  if (!conditions.parallel_tensor_operator || costs.workers() == 1) return Time::zero();
  return costs.of(CollectiveKind::all_gather).time(4 * static_cast<std::int64_t>(profile.layers.size()));
}

Extras make_extras(const core::Profile& profile, const Costs& costs, const Conditions& conditions) {
  const double slowdown = worst_slowdown(conditions, costs.workers());
  const double rates_us = conditions.lars_us + conditions.lamb_us;
  const double lars_us =
      conditions.parallel_tensor_operator ? rates_us / static_cast<double>(costs.workers()) : rates_us;
  const bool apart = conditions.parallel_tensor_operator;
  const double waiting_us = costs.workers() > 1 ? conditions.waiting_us : 0;
  return {.read = sim::from_us((conditions.read_is_overlapped ? 0 : conditions.read_us) + waiting_us),
          .update = sim::from_us((conditions.optimizer_us + (apart ? 0 : lars_us)) * slowdown),
          .lars = sim::from_us(apart ? lars_us * slowdown : 0),
          .lars_gather = lars_gather(profile, costs, conditions)};
}

}  // namespace

void too_long(double us) {
  throw Unsupported(fmt::format("times that add up to at most {} us over all iterations", sim::kMaxUs),
                    fmt::format("{:.6g}", us));
}

double checked_compute_us(const core::Profile& profile, const Conditions& conditions, double slowdown) {
  const double us =
      static_cast<double>(conditions.accumulation_steps) *
          (core::forward_us(profile) + core::backward_us(profile)) * std::max(slowdown, 1.0) +
      conditions.read_us + conditions.waiting_us +
      (conditions.optimizer_us + conditions.lars_us + conditions.lamb_us) * std::max(slowdown, 1.0);
  const double all = us * (static_cast<double>(conditions.iterations) + 1);
  if (all > sim::kMaxUs) too_long(all);
  return us;
}

Conditions on_workers(Conditions conditions, std::int64_t workers) {
  const double spread = conditions.worker_spread.value_or(0);
  if (spread > 0 && workers > 1)
    conditions.stragglers = {{.worker = 0, .slowdown = 1 + spread * sim::expected_largest_normal(workers)}};
  return conditions;
}

Setting::Setting(const core::Profile& profile, const core::Network& its_network, std::int64_t workers,
                 const Algorithm& all_reduce, Conditions given)
    : network(&its_network),
      conditions(on_workers(std::move(given), workers)),
      slowdown(worst_slowdown(conditions, workers)),
      costs(its_network, workers, all_reduce) {
  checked_compute_us(profile, conditions, slowdown);
  workload = make_workload(profile, slowdown);
  if (workload.forward_total + workload.backward_total == Time::zero())
    throw Unsupported("compute times of at least 1 picosecond in all", "less", "/profile");
  extras = within_clock([&] { return make_extras(profile, costs, conditions); });
}

double host_us(const Setting& setting) {
  return setting.slowdown *
         core::host_bound_us(*setting.workload.profile, setting.conditions.accumulation_steps);
}

std::vector<double> slowdowns(const Setting& setting) {
  std::vector<double> out(static_cast<std::size_t>(setting.costs.workers()), 1);
  for (const Straggler& straggler : setting.conditions.stragglers)
    if (straggler.worker < setting.costs.workers())
      out[static_cast<std::size_t>(straggler.worker)] = straggler.slowdown;
  return out;
}

namespace {

bool has_curve(const Compressor& compressor) {
  return compressor.encode.curve || compressor.decode.curve || compressor.in_transit.curve ||
         (compressor.sparse && compressor.sparse->recompute_selection.curve);
}

}  // namespace

TransferCost cost_of(const Setting& setting, Transfer transfer) {
  return within_clock([&] {
    return TransferCost(*setting.network, setting.costs.workers(), std::move(transfer), setting.slowdown,
                        &setting.workload);
  });
}

std::vector<TransferCost> make_transfers(const Setting& setting, const Transfer& own,
                                         std::span<const TransferChoice> choices) {
  std::vector<Transfer> transfers = {own};
  for (const TransferChoice& choice : choices) {
    const Transfer transfer = chosen(own, choice);
    if (std::ranges::find(transfers, transfer) == transfers.end()) transfers.push_back(transfer);
  }
  std::vector<TransferCost> out;
  out.reserve(transfers.size());
  for (Transfer& transfer : transfers) {
    if (!transfer.wire.is_usual() && !transfer.compressor.is_none())
      throw Unsupported("the profile's type for gradients that a compressor encodes",
                        "another type, and a compressor", "/data_types");
    if (has_curve(transfer.compressor) && setting.workload.profile->dtype != core::Dtype::float32)
      throw Unsupported(fmt::format("a profile of float32 gradients, of which the costs of {} were measured",
                                    transfer.compressor.name),
                        "one of two bytes an element", "/profile");
    out.push_back(cost_of(setting, std::move(transfer)));
  }
  return out;
}

}  // namespace planner
