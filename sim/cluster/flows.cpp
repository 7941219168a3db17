// Progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2), restricted to narrow links. A
// link whose flows together want no more than its capacity limits nobody, so only the other links connect
// flows.

#include "sim/cluster/flows.hpp"

#include <algorithm>
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
  for (const Flow& flow : flows_)
    if (flow.owns)
      for (const Hop& hop : flow.hops) out[hop.link] = hop.busy_us;
  return out;
}

sim::Time Flows::begin(std::uint32_t slot, std::pair<std::uint32_t, std::uint32_t> ranks, std::int64_t bytes,
                       const Factors& factors, sim::Time at) {
  Flow& flow = flows_[slot];
  if (flow.from != ranks.first || flow.to != ranks.second) find_route(slot, ranks.first, ranks.second);
  const double first_us = topology_.spec.startup_us + flow.latency_us;
  // The operations are in the order of message_time(), so the results have the same bits.
  const double us =
      (first_us + static_cast<double>(bytes) * flow.us_per_byte) * factors.slowdown * factors.draw;
  flow.since = at;
  flow.left_us = us;
  flow.before_us = first_us * factors.slowdown * factors.draw;
  flow.bytes = static_cast<double>(bytes) * factors.slowdown * factors.draw;
  if (bytes == 0) return sim::after(at, us);
  flow.in_flight = true;
  if (!flow.owns && !flow.hops.empty()) {
    flow.speed = 1;
    disown_links_of(flow);
    flow.waits = !fits(flow);
    if (flow.waits) return flow.flows_from();
    join(slot);
  }
  return sim::after(at, us);
}

bool Flows::handle_event(std::uint32_t slot, EventQueue& queue) {
  Flow& flow = flows_[slot];
  if (!flow.waits) {
    if (flow.in_flight) end(slot);
    return true;
  }
  flow.waits = false;
  disown_links_of(flow);
  join(slot);
  for (const Hop& hop : flow.hops) {
    if (!carriers_[hop.link].is_narrow()) continue;
    make_early_wait(hop.link, flow.flows_from(), queue);
    mark(hop.link);
  }
  queue.set(slot, sim::after(flow.since, flow.left_us));
  return false;
}

void Flows::end(std::uint32_t slot) {
  Flow& flow = flows_[slot];
  flow.in_flight = false;
  if (flow.owns) {
    for (Hop& hop : flow.hops) hop.busy_us += flow.bytes * hop.us_per_byte;
    return;
  }
  for (const Hop& hop : flow.hops) carriers_[hop.link].busy_us += flow.bytes * hop.us_per_byte;
  leave(slot);
}

void Flows::find_route(std::uint32_t slot, std::uint32_t from, std::uint32_t to) {
  disown(slot);
  Flow& flow = flows_[slot];
  const Route route = topology_.route(from, to);
  flow.from = from;
  flow.to = to;
  flow.latency_us = route.latency_us;
  flow.us_per_byte = route.us_per_byte;
  flow.alone = route.us_per_byte > 0 ? 1 / route.us_per_byte : 0;
  flow.hops.clear();
  for (const std::uint32_t link : route.links)
    if (carriers_[link].capacity > 0)
      flow.hops.push_back({.link = link, .us_per_byte = topology_.links[link].us_per_byte});
}

/// A flow that no longer flows leaves the links that it owned.
void Flows::disown(std::uint32_t slot) {
  Flow& flow = flows_[slot];
  if (!flow.owns) return;
  flow.owns = false;
  for (const Hop& hop : flow.hops) carriers_[hop.link].busy_us = hop.busy_us;
  if (!flow.in_flight) leave(slot);
}

void Flows::disown_links_of(const Flow& flow) {
  for (const Hop& hop : flow.hops)
    if (carriers_[hop.link].count == 1) disown(carriers_[hop.link].first.slot);
}

/// Whether no link of the flow becomes narrow by it.
bool Flows::fits(const Flow& flow) const {
  return std::ranges::none_of(flow.hops, [&](const Hop& hop) {
    const Carrier& carrier = carriers_[hop.link];
    return carrier.is_narrow_for(carrier.wanted + flow.alone);
  });
}

void Flows::join(std::uint32_t slot) {
  Flow& flow = flows_[slot];
  flow.owns = true;
  for (std::uint32_t i = 0; i < flow.hops.size(); ++i) {
    Hop& hop = flow.hops[i];
    Carrier& carrier = carriers_[hop.link];
    flow.owns = flow.owns && carrier.count == 0;
    hop.index = carrier.count;
    hop.busy_us = carrier.busy_us;
    carrier.add({.slot = slot, .hop = i});
    carrier.wanted += flow.alone;
  }
}

void Flows::leave(std::uint32_t slot) {
  const Flow& flow = flows_[slot];
  for (const Hop& hop : flow.hops) {
    mark(hop.link);
    Carrier& carrier = carriers_[hop.link];
    const Member last = carrier.remove(hop.index);
    if (last.slot != slot) flows_[last.slot].hops[last.hop].index = hop.index;
    carrier.wanted = carrier.count == 0 ? 0 : carrier.wanted - flow.alone;
  }
}

/// The flows of a narrow link whose bytes begin to flow after `now` wait for that event.
void Flows::make_early_wait(std::uint32_t link, sim::Time now, EventQueue& queue) {
  Carrier& carrier = carriers_[link];
  for (std::uint32_t index = 0; index < carrier.count;) {
    const std::uint32_t slot = carrier.at(index).slot;
    Flow& flow = flows_[slot];
    if (flow.flows_from() <= now) {
      ++index;
      continue;
    }
    leave(slot);
    flow.waits = true;
    queue.set(slot, flow.flows_from());
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
  flow.before_us = 0;
  flow.speed = speed;
}

double Flows::carried(std::uint32_t link, sim::Time now) const {
  double sum = 0;
  each_member(link, [&](const Member& member) {
    const Flow& flow = flows_[member.slot];
    if (flow.in_flight && flow.flows_from() <= now) sum += flow.speed * flow.alone;
  });
  return sum;
}

}  // namespace cluster
