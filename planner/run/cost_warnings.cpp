#include "planner/run/cost_warnings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "planner/job/recompute.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// Adds warnings about the groups that use one transfer, by the sizes of their messages.
void add_warnings(const TransferCost& transfer, CollectiveKind kind, const std::vector<Payload>& payloads,
                  std::vector<Warning>& warnings) {
  std::map<CollectiveKind, std::vector<double>> messages;
  const bool sends_one = !transfer.depends_on_shapes();
  for (const Payload& payload : payloads) {
    const bool is_encoded = transfer.is_encoded(payload);
    if (transfer.is_sparse() && is_encoded) continue;  // closed forms need no measurement
    std::vector<double>& sizes = messages[is_encoded ? transfer.carrier(kind) : kind];
    if (sends_one)
      sizes.push_back(std::round(transfer.message_bytes(kind, payload)));
    else
      for (const double bytes : transfer.messages(kind, payload)) sizes.push_back(std::round(bytes));
  }
  for (const auto& [carrier, bytes] : messages)
    for (Warning& warning : transfer.costs_of(carrier).warnings(carrier, bytes))
      warnings.push_back(std::move(warning));
}

/// Adds warnings about costs of coding that are estimated, and about groups larger than the measured sizes.
void add_code_warnings(const TransferCost& transfer, const std::vector<Payload>& payloads,
                       std::vector<Warning>& warnings) {
  const Compressor& compressor = transfer.transfer().compressor;
  const std::string how = estimated_low_rank_costs(compressor);
  if (how.empty() && !compressor.encode.curve && !compressor.decode.curve) return;
  double max = 0;
  for (const Payload& payload : payloads)
    max = std::max(max, static_cast<double>(transfer.largest_encoded(payload)));
  if (max > 0 && !how.empty()) {
    const std::string text = fmt::format("compressor {}: {}", compressor.name, how);
    warnings.push_back({.subject = text, .text = text});
  }
  for (const CodeCost* cost : {&compressor.encode, &compressor.decode}) {
    if (!cost->curve || max <= cost->curve->measured_up_to_bytes()) continue;
    const std::string what = fmt::format("compressor {}", compressor.name);
    warnings.push_back(
        {.subject = "extrapolation: " + what,
         .weight = max,
         .text = fmt::format("{}: measured up to {:.0f} bytes, the last line is continued to {:.0f}", what,
                             cost->curve->measured_up_to_bytes(), max)});
    return;
  }
}

std::vector<Payload> payloads_that_travel(const Setting& setting, const CommunicationPlan& plan,
                                          std::uint32_t transfer) {
  std::vector<Payload> out;
  out.reserve(plan.groups.size());
  for (const Group& group : plan.groups)
    if (group.transfer == transfer) out.push_back(payload_of(setting.workload, group));
  return out;
}

/// Adds a warning where padded tensors travel with many more bytes than they have, or where that is not
/// known.
void add_padding_warning(const Setting& setting, const CommunicationPlan& plan,
                         std::vector<Warning>& warnings) {
  constexpr double kLeastPercent = 1;
  constexpr std::int64_t kUsualRows = 64;  // tensors with fewer rows, or with other numbers, are small
  const TransferCost& transfer = plan.transfers.front();
  if (!transfer.transfer().pads_tensors) return;
  const std::int64_t workers = transfer.workers();
  const Payload all = payload_of_all(setting.workload);
  if (workers > kUsualRows && !has_shapes(*setting.workload.profile)) {
    const std::string text =
        "the profile lacks shapes of some tensors, so that their padding by FSDP2 is left out";
    warnings.push_back({.subject = text, .text = text});
  }
  const double percent =
      100 * (static_cast<double>(transfer.padded_bytes(all)) / static_cast<double>(all.bytes) - 1);
  if (percent < kLeastPercent) return;
  warnings.push_back(
      {.subject = "padding by FSDP2",
       .weight = percent,
       .text = fmt::format("FSDP2 pads the first dimension of each tensor to a multiple of {} workers: "
                           "{:.0f} % more bytes are sent and held",
                           workers, percent),
       .workers = workers,
       .also = "also padded, by at most as much,"});
}

/// Adds a warning where blocks that train nothing are gathered with others, as groups consist of gradients.
void add_frozen_warning(const Setting& setting, const CommunicationPlan& plan,
                        std::vector<Warning>& warnings) {
  if (!plan.transfers.front().transfer().gathers_frozen) return;
  std::set<std::string_view> frozen;
  for (const core::ProfileLayer& layer : setting.workload.profile->layers)
    if (layer.frozen_elements > 0) frozen.insert(block_name(layer.name));
  frozen.erase("");
  for (const core::ProfileLayer& layer : setting.workload.profile->layers)
    if (!layer.tensors.empty()) frozen.erase(block_name(layer.name));
  if (frozen.empty()) return;
  warnings.push_back(
      {.subject = "frozen blocks",
       .weight = static_cast<double>(frozen.size()),
       .text = frozen.size() == 1
                   ? "a block trains nothing, and is gathered together with a layer that does"
                   : fmt::format("{} blocks train nothing, and are gathered together with layers that do",
                                 frozen.size())});
}

}  // namespace

std::vector<Warning> cost_warnings(const Setting& setting, const CommunicationPlan& plan) {
  std::vector<Warning> out;
  if (setting.costs.workers() == 1) return out;
  bool measured = false;
  bool closed = false;
  const auto note = [&](const CollectiveCost& cost) { (cost.is_measured ? measured : closed) = true; };
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    if (std::ranges::none_of(plan.program.ops, [&](const Op& op) { return op.kind == kind; })) continue;
    for (std::uint32_t transfer = 0; transfer < plan.transfers.size(); ++transfer) {
      const std::vector<Payload> payloads = payloads_that_travel(setting, plan, transfer);
      if (payloads.empty()) continue;
      const TransferCost& cost = plan.transfers[transfer];
      if (cost.is_sparse())
        closed = true;
      else
        note(cost.costs_of(cost.carrier(kind)).of(cost.carrier(kind)));
      add_warnings(cost, kind, payloads, out);
      add_code_warnings(cost, payloads, out);
    }
  }
  add_padding_warning(setting, plan, out);
  add_frozen_warning(setting, plan, out);
  if (setting.extras.lars_gather > Time::zero()) {
    const double bytes = 4 * static_cast<double>(setting.workload.forward.size());
    note(setting.costs.of(CollectiveKind::all_gather));
    for (Warning& warning : setting.costs.warnings(CollectiveKind::all_gather, {bytes}))
      out.push_back(std::move(warning));
  }
  if (measured && setting.conditions.fidelity != Fidelity::closed) {
    const std::string text = fmt::format(
        "{} workers: measured curves are for closed collectives, rank by rank link or levels are looked at",
        setting.costs.workers());
    out.push_back({.subject = text, .text = text});
  }
  if (measured && closed) {
    const std::string text = fmt::format(
        "{} workers: closed forms are mixed with measurements in one schedule", setting.costs.workers());
    out.push_back({.subject = text, .text = text});
  }
  return out;
}

}  // namespace planner
