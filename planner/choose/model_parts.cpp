#include "planner/choose/model_parts.hpp"

#include <cmath>

#include "planner/graph/lowered.hpp"

namespace planner {

using core::CollectiveKind;
using sim::Time;

namespace {

/// The growth of a cost with what a group carries.
struct Growth {
  bool longer_costs_more = false;
  double saved_by_merging_us = -1;  ///< negative if two groups may cost less than one
};

/// Whether one group with its cheapest transfer can be compared with two with theirs: not where a transfer's
/// cost depends on more than bytes, as each of the two may be cheap with another transfer.
bool depends_on_bytes(const IterationSpec& spec) {
  return spec.transfers.size() == 1 || std::ranges::none_of(spec.transfers, &TransferCost::depends_on_shapes);
}

Growth growth_on_channel(const IterationSpec& spec, CollectiveKind kind) {
  Growth out = {.longer_costs_more = longer_costs_more(spec, kind), .saved_by_merging_us = 1e300};
  for (const TransferCost& transfer : spec.transfers)
    out.saved_by_merging_us = std::min(out.saved_by_merging_us, transfer.saved_on_channel_us(kind));
  if (!depends_on_bytes(spec)) out.saved_by_merging_us = -1;
  return out;
}

Growth growth_in_code(const IterationSpec& spec) {
  return {.longer_costs_more = coding_grows(spec),
          .saved_by_merging_us = merging_saves_code(spec) ? 0.0 : -1.0};
}

/// If merging never costs more, the least time of any groups of these gradients: `whole`, the time of one
/// group, less the rounding gain of each group.
Time min_in_groups(Time whole, std::uint32_t gradients, double saved_us) {
  constexpr std::int64_t kDoubles = std::int64_t{1} << 40;
  const Time rounding = Time(gradients + 1) + whole / kDoubles;
  if (saved_us * 1e6 > static_cast<double>(rounding.count())) return whole;
  return std::max(Time::zero(), whole - rounding);
}

/// The least cost of a group over all transfers.
template <typename Cost>
auto by_best_transfer(const IterationSpec& spec, Cost cost) {
  return [&spec, cost](std::uint32_t begin, std::uint32_t end) {
    const Payload payload = payload_between(spec.workload, begin, end);
    Time out = Time::max();
    for (const TransferCost& transfer : spec.transfers) out = std::min(out, cost(transfer, payload));
    return out;
  };
}

template <typename Cost>
std::vector<Time> min_by_transfer(const IterationSpec& spec, const Growth& growth, Cost cost) {
  const auto of_group = by_best_transfer(spec, cost);
  const std::uint32_t count = spec.workload.gradient_count();
  if (growth.saved_by_merging_us < 0) return min_sums(count, of_group, growth.longer_costs_more);
  std::vector<Time> out(count + 1);
  for (std::uint32_t n = 0; n < count; ++n)
    out[n] = min_in_groups(of_group(n, count), count - n, growth.saved_by_merging_us);
  return out;
}

Time encode_time(const TransferCost& transfer, const Payload& payload) { return transfer.encode(payload); }

}  // namespace

bool any_encodes(const IterationSpec& spec) {
  return std::ranges::any_of(spec.transfers, &TransferCost::encodes);
}

bool any_decodes(const IterationSpec& spec) {
  return std::ranges::any_of(spec.transfers, &TransferCost::decodes);
}

bool longer_costs_more(const IterationSpec& spec, CollectiveKind kind) {
  return std::ranges::all_of(spec.transfers,
                             [kind](const TransferCost& transfer) { return transfer.is_monotone(kind); });
}

bool coding_grows(const IterationSpec& spec) {
  return std::ranges::all_of(spec.transfers, &TransferCost::coding_grows);
}

bool merging_saves_code(const IterationSpec& spec) {
  return depends_on_bytes(spec) && std::ranges::all_of(spec.transfers, [](const TransferCost& transfer) {
           return transfer.coding_grows() && transfer.merging_saves_code();
         });
}

std::vector<Time> min_channel_time(const IterationSpec& spec, CollectiveKind kind) {
  return min_by_transfer(
      spec, growth_on_channel(spec, kind),
      [kind](const TransferCost& transfer, const Payload& payload) { return transfer.time(kind, payload); });
}

std::vector<Time> min_encoding(const IterationSpec& spec) {
  if (!any_encodes(spec)) return std::vector<Time>(spec.workload.gradients.size() + 1);
  return min_by_transfer(spec, growth_in_code(spec), encode_time);
}

std::vector<Time> min_decoding(const IterationSpec& spec) {
  if (!any_decodes(spec)) return std::vector<Time>(spec.workload.gradients.size() + 1);
  return min_by_transfer(
      spec, growth_in_code(spec),
      [](const TransferCost& transfer, const Payload& payload) { return transfer.decode(payload); });
}

std::vector<Time> min_coding(const IterationSpec& spec) {
  return min_by_transfer(spec, growth_in_code(spec),
                         [](const TransferCost& transfer, const Payload& payload) {
                           return transfer.encode(payload) + transfer.decode(payload);
                         });
}

std::vector<Time> min_mix(const IterationSpec& spec, CollectiveKind kind, double coding) {
  const Growth grows = {.longer_costs_more = coding_grows(spec) && longer_costs_more(spec, kind)};
  return min_by_transfer(spec, grows, [&](const TransferCost& transfer, const Payload& payload) {
    const auto code = static_cast<double>((transfer.encode(payload) + transfer.decode(payload)).count());
    const auto channel = static_cast<double>(transfer.time(kind, payload).count());
    return Time(static_cast<std::int64_t>(coding * code + (1 - coding) * channel));
  });
}

std::vector<Time> forward_and_updates(const IterationSpec& spec) {
  const Workload& workload = spec.workload;
  std::vector<Time> out(workload.gradients.size() + 1);
  for (std::uint32_t cut = 1; cut < out.size(); ++cut)
    out[cut] = forward_from(workload, workload.gradients[cut - 1].layer) +
               group_update(workload, spec.extras, 0, cut);
  return out;
}

std::vector<Time> min_encoding_before(const IterationSpec& spec) {
  std::vector<Time> out(spec.workload.gradients.size() + 1);
  if (!any_encodes(spec) || !merging_saves_code(spec)) return out;
  const auto of_group = by_best_transfer(spec, encode_time);
  for (std::uint32_t n = 1; n < out.size(); ++n) out[n] = min_in_groups(of_group(0, n), n, 0);
  return out;
}

std::vector<Time> ready_times(const Workload& workload, bool after_backward) {
  std::vector<Time> ready;
  ready.reserve(workload.gradients.size());
  for (const Gradient& gradient : workload.gradients)
    ready.push_back(after_backward ? workload.backward_total : gradient.ready);
  return ready;
}

Channel::Channel(const IterationSpec& spec, CollectiveKind kind, bool after_backward)
    : spec_(spec),
      kind_(kind),
      ready_(ready_times(spec.workload, after_backward)),
      longer_costs_more_(planner::longer_costs_more(spec, kind)) {}

void Channel::prepare_bounds() {
  min_ = min_channel_time(spec_, kind_);
  bounds_.resize(min_.size());
  // The earliest end of any group that holds gradient n or a later one, if longer groups do not cost less.
  for (std::size_t n = ready_.size(); n-- > 0;)
    bounds_[n] = longer_costs_more_ ? std::max(bounds_[n + 1], ready_[n] + min_[n]) : Time::zero();
  const auto of_group = by_best_transfer(spec_, [this](const TransferCost& transfer, const Payload& payload) {
    return transfer.time(kind_, payload);
  });
  min_next_.resize(ready_.size());
  for (std::uint32_t n = 0; longer_costs_more_ && n < min_next_.size(); ++n)
    min_next_[n] = of_group(n, n + 1);
}

std::size_t max_kept(std::uint32_t gradients, std::uint32_t transfers) {
  // The limit of work, which grows with the square of both and with the transfers. It suffices for existing
  // models; beyond it, the plan reports a bound on the loss.
  constexpr double kWork = 1e10;
  constexpr double kMin = 128;  // enough for 10,000 compressed tensors
  return static_cast<std::size_t>(std::max(kMin, std::sqrt(kWork / transfers) / gradients));
}

}  // namespace planner
