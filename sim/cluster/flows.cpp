// Progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2), restricted to narrow links. A
// link whose flows together want no more than its capacity limits nobody, so only the other links connect
// flows.

#include "sim/cluster/flows.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/cluster/links.hpp"

namespace cluster {
namespace {

constexpr double kPicosecondsPerUs = 1e6;
constexpr double kRounding = 1e-12;

/// Rounds up, but ignores a thousandth of a picosecond, which is the rounding error of the sums before.
sim::Time up_from_us(double us) {
  return sim::Time(static_cast<std::int64_t>(std::ceil(us * kPicosecondsPerUs - 1e-3)));
}

}  // namespace

void Flows::Carrier::add(const Member& member) {
  if (count++ == 0)
    first = member;
  else
    others.push_back(member);
}

Flows::Member Flows::Carrier::remove(std::uint32_t index) {
  const Member last = at(--count);
  at(index) = last;
  if (count > 0) others.pop_back();
  return last;
}

Flows::Flows(Topology topology)
    : topology_(std::move(topology)), carriers_(topology_.links.size()), sharings_(topology_.links.size()) {
  for (std::size_t i = 0; i < carriers_.size(); ++i) {
    carriers_[i].us_per_byte = topology_.links[i].us_per_byte;
    if (carriers_[i].us_per_byte > 0) carriers_[i].capacity = 1 / carriers_[i].us_per_byte;
  }
}

template <typename Visit>
void Flows::each_member(std::uint32_t link, const Visit& visit) const {
  const Carrier& carrier = carriers_[link];
  if (carrier.count == 0) return;
  visit(carrier.first);
  for (const Member& member : carrier.others) visit(member);
}

std::vector<double> Flows::busy_us() const {
  std::vector<double> out;
  out.reserve(carriers_.size());
  for (const Carrier& carrier : carriers_) out.push_back(carrier.busy_us);
  return out;
}

Flows::FlowStart Flows::begin(std::uint32_t slot, std::pair<std::uint32_t, std::uint32_t> ranks,
                              std::int64_t bytes, const Factors& factors, sim::Time at) {
  Flow& flow = flows_[slot];
  if (flow.from != ranks.first || flow.to != ranks.second) find_route(flow, ranks.first, ranks.second);
  const double first_us = topology_.spec.startup_us + flow.latency_us;
  // The operations are in the order of message_time(), so the results have the same bits.
  const double us =
      (first_us + static_cast<double>(bytes) * flow.us_per_byte) * factors.slowdown * factors.draw;
  flow.since = at;
  flow.left_us = us;
  flow.bytes = static_cast<double>(bytes) * factors.slowdown * factors.draw;
  flow.speed = 1;
  if (bytes == 0 || flow.hops.empty()) return {.at = sim::after(at, us)};
  return {.at = sim::after(at, first_us * factors.slowdown * factors.draw), .joins = true};
}

void Flows::find_route(Flow& flow, std::uint32_t from, std::uint32_t to) const {
  const Route route = topology_.route(from, to);
  flow.from = from;
  flow.to = to;
  flow.latency_us = route.latency_us;
  flow.us_per_byte = route.us_per_byte;
  flow.alone = route.us_per_byte > 0 ? 1 / route.us_per_byte : 0;
  flow.hops.clear();
  for (const std::uint32_t link : route.links)
    if (carriers_[link].capacity > 0) flow.hops.push_back({.link = link});
}

sim::Time Flows::join(std::uint32_t slot) {
  Flow& flow = flows_[slot];
  flow.flows = true;
  for (std::uint32_t i = 0; i < flow.hops.size(); ++i) {
    Carrier& carrier = carriers_[flow.hops[i].link];
    flow.hops[i].index = carrier.count;
    carrier.add({.slot = slot, .hop = i});
    carrier.wanted += flow.alone;
    mark(flow.hops[i].link);
  }
  return sim::after(flow.since, flow.left_us);
}

void Flows::leave(std::uint32_t slot) {
  Flow& flow = flows_[slot];
  if (!flow.flows) return;
  flow.flows = false;
  for (const Hop& hop : flow.hops) {
    mark(hop.link);
    Carrier& carrier = carriers_[hop.link];
    carrier.busy_us += flow.bytes * carrier.us_per_byte;
    const Member last = carrier.remove(hop.index);
    if (last.slot != slot) flows_[last.slot].hops[last.hop].index = hop.index;
    carrier.wanted = carrier.count == 0 ? 0 : carrier.wanted - flow.alone;
  }
}

/// Flows on a link that is narrow, or was narrow until now, may get another share.
void Flows::mark(std::uint32_t link) {
  if (!carriers_[link].is_narrow() || sharings_[link].is_dirty) return;
  sharings_[link].is_dirty = true;
  dirty_.push_back(link);
}

void Flows::settle(sim::Time now, EventQueue& queue) {
  if (dirty_.empty()) return;
  find_component();
  fill(now, queue);
}

/// Collects all flows whose shares may change, and all narrow links that they pass.
void Flows::find_component() {
  ++epoch_;
  component_.clear();
  narrow_.clear();
  for (const std::uint32_t link : dirty_) {
    sharings_[link].is_dirty = false;
    add_flows_of(link);
  }
  dirty_.clear();
  for (std::size_t next = 0; next < component_.size();)  // grows during the loop
    for (const Hop& hop : flows_[component_[next++]].hops) {
      const Carrier& carrier = carriers_[hop.link];
      Sharing& sharing = sharings_[hop.link];
      if (!carrier.is_narrow() || sharing.seen == epoch_) continue;
      sharing.seen = epoch_;
      sharing.left = carrier.capacity;
      sharing.unshared = carrier.count;
      narrow_.push_back(hop.link);
      add_flows_of(hop.link);
    }
}

void Flows::add_flows_of(std::uint32_t link) {
  each_member(link, [&](const Member& member) {
    Flow& flow = flows_[member.slot];
    if (flow.seen == epoch_) return;
    flow.seen = epoch_;
    flow.shared = false;
    component_.push_back(member.slot);
  });
}

namespace {

/// The order of a min-heap; equal values are ordered by link.
constexpr auto kMinFirst = [](const auto& a, const auto& b) {
  return a.rate != b.rate ? a.rate > b.rate : a.link > b.link;
};

}  // namespace

/// All shares grow equally until a flow reaches its full speed or a link is full.
void Flows::fill(sim::Time now, EventQueue& queue) {
  std::ranges::sort(component_, [this](std::uint32_t a, std::uint32_t b) {
    return flows_[a].alone != flows_[b].alone ? flows_[a].alone < flows_[b].alone : a < b;
  });
  shares_.clear();
  for (const std::uint32_t link : narrow_)
    shares_.push_back({.rate = carriers_[link].capacity / sharings_[link].unshared, .link = link});
  std::make_heap(shares_.begin(), shares_.end(), kMinFirst);
  std::size_t next = 0;
  double level = 0;
  for (;;) {
    while (next < component_.size() && flows_[component_[next]].shared) ++next;
    if (next == component_.size()) return;
    const std::uint32_t link = narrowest(level);
    const double alone = flows_[component_[next]].alone;
    if (link == UINT32_MAX || alone <= shares_.front().rate) {
      level = alone;
      give(component_[next], alone, now, queue);
      continue;
    }
    level = shares_.front().rate;
    each_member(link, [&](const Member& member) {
      if (!flows_[member.slot].shared) give(member.slot, level, now, queue);
    });
  }
}

/// Moves the link whose flows expect the smallest share to the front of the heap and returns it; UINT32_MAX
/// if no link is left. Expected shares only grow; `min` prevents rounding from reducing them.
std::uint32_t Flows::narrowest(double min) {
  while (!shares_.empty()) {
    const Share front = shares_.front();
    const Sharing& sharing = sharings_[front.link];
    const double rate = sharing.unshared == 0 ? 0 : std::max(sharing.left / sharing.unshared, min);
    if (sharing.unshared > 0 && rate <= front.rate) return front.link;
    std::pop_heap(shares_.begin(), shares_.end(), kMinFirst);
    if (sharing.unshared == 0) {
      shares_.pop_back();
      continue;
    }
    shares_.back().rate = rate;
    std::push_heap(shares_.begin(), shares_.end(), kMinFirst);
  }
  return UINT32_MAX;
}

void Flows::give(std::uint32_t slot, double rate, sim::Time now, EventQueue& queue) {
  Flow& flow = flows_[slot];
  flow.shared = true;
  for (const Hop& hop : flow.hops) {
    Sharing& sharing = sharings_[hop.link];
    if (sharing.seen != epoch_) continue;
    sharing.left -= rate;
    --sharing.unshared;
  }
  double speed = rate * flow.us_per_byte;
  if (speed > 1 - kRounding) speed = 1;
  if (std::abs(speed - flow.speed) <= kRounding * speed) return;
  change(flow, speed, now);
  const double left_us = flow.left_us / speed;
  if (!(sim::to_us(now) + left_us <= sim::kMaxUs)) sim::too_long(sim::to_us(now) + left_us);
  queue.set(slot, now + up_from_us(left_us));
}

void Flows::change(Flow& flow, double speed, sim::Time now) {
  const double passed_us = static_cast<double>((now - flow.since).count()) / kPicosecondsPerUs;
  flow.left_us = std::max(0.0, flow.left_us - passed_us * flow.speed);
  flow.since = now;
  flow.speed = speed;
}

double Flows::carried(std::uint32_t link) const {
  double sum = 0;
  each_member(link,
              [&](const Member& member) { sum += flows_[member.slot].speed * flows_[member.slot].alone; });
  return sum;
}

}  // namespace cluster
