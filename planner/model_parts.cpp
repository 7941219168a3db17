#include "planner/model_parts.hpp"

#include <cmath>

namespace planner {

using sim::Time;
using traces::CollectiveKind;

namespace {

template <typename Cost>
std::vector<Time> least_by_way(const FusionRequest& request, bool longer_costs_more, Cost cost) {
  const Workload& workload = request.workload;
  const auto least = [&](std::uint32_t begin, std::uint32_t end) {
    const std::int64_t bytes = bytes_between(workload, begin, end);
    Time out = Time::max();
    for (const WayCost& way : request.ways) out = std::min(out, cost(way, bytes));
    return out;
  };
  return least_sums(workload.gradient_count(), least, longer_costs_more);
}

}  // namespace

bool any_encodes(const FusionRequest& request) {
  return std::any_of(request.ways.begin(), request.ways.end(), [](const WayCost& w) { return w.encodes(); });
}

bool any_decodes(const FusionRequest& request) {
  return std::any_of(request.ways.begin(), request.ways.end(), [](const WayCost& w) { return w.decodes(); });
}

bool longer_costs_more(const FusionRequest& request, CollectiveKind kind) {
  return std::all_of(request.ways.begin(), request.ways.end(),
                     [kind](const WayCost& way) { return way.is_monotone(kind); });
}

/// Unless some are sent as they are.
bool coding_grows(const FusionRequest& request) {
  return std::none_of(request.ways.begin(), request.ways.end(),
                      [](const WayCost& way) { return way.way().selective; });
}

std::vector<Time> least_channel_time(const FusionRequest& request, CollectiveKind kind) {
  return least_by_way(request, longer_costs_more(request, kind),
                      [kind](const WayCost& way, std::int64_t bytes) { return way.time(kind, bytes); });
}

std::vector<Time> least_encoding(const FusionRequest& request) {
  if (!any_encodes(request)) return std::vector<Time>(request.workload.gradients.size() + 1);
  return least_by_way(request, coding_grows(request),
                      [](const WayCost& way, std::int64_t bytes) { return way.encode(bytes); });
}

std::vector<Time> least_decoding(const FusionRequest& request) {
  if (!any_decodes(request)) return std::vector<Time>(request.workload.gradients.size() + 1);
  return least_by_way(request, coding_grows(request),
                      [](const WayCost& way, std::int64_t bytes) { return way.decode(bytes); });
}

std::vector<Time> least_coding(const FusionRequest& request) {
  return least_by_way(request, coding_grows(request), [](const WayCost& way, std::int64_t bytes) {
    return way.encode(bytes) + way.decode(bytes);
  });
}

std::vector<Time> least_mix(const FusionRequest& request, CollectiveKind kind, double coding) {
  const bool grows = coding_grows(request) && longer_costs_more(request, kind);
  return least_by_way(request, grows, [&](const WayCost& way, std::int64_t bytes) {
    const auto code = static_cast<double>((way.encode(bytes) + way.decode(bytes)).count());
    const auto channel = static_cast<double>(way.time(kind, bytes).count());
    return Time(static_cast<std::int64_t>(coding * code + (1 - coding) * channel));
  });
}

std::vector<Time> ready_times(const Workload& workload, bool after_backward) {
  std::vector<Time> ready;
  ready.reserve(workload.gradients.size());
  for (const Gradient& gradient : workload.gradients)
    ready.push_back(after_backward ? workload.backward_total : gradient.ready);
  return ready;
}

Channel::Channel(const FusionRequest& request, CollectiveKind kind, bool after_backward)
    : request_(request),
      kind_(kind),
      ready_(ready_times(request.workload, after_backward)),
      longer_costs_more_(planner::longer_costs_more(request, kind)) {}

void Channel::prepare_bounds() {
  least_ = least_channel_time(request_, kind_);
  bounds_.resize(least_.size());
  // Whatever carries gradient n or a later one ends no sooner than this, if longer groups do not cost less.
  for (std::size_t n = ready_.size(); n-- > 0;)
    bounds_[n] = longer_costs_more_ ? std::max(bounds_[n + 1], ready_[n] + least_[n]) : Time::zero();
}

std::size_t most_kept(std::uint32_t gradients, std::uint32_t ways) {
  // The work grows with the square of both, and with the ways. Enough for models as they are; where it is
  // not, the plan says by how much it may be off.
  constexpr double kWork = 1e10;
  constexpr double kLeast = 8;
  return static_cast<std::size_t>(std::max(kLeast, std::sqrt(kWork / ways) / gradients));
}

}  // namespace planner
