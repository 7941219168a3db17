// Building blocks of fluid simulations of shared links, in real numbers: slow, but obviously correct.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cluster/topology.hpp"
#include "tests/support/random.hpp"

namespace cluster {

using Real = long double;

/// Times in us.
struct FluidFlow {
  Real joins = 0;
  Real bytes = 0;  ///< remaining
  Real rate = 0;
  std::vector<std::uint32_t> links{};

  bool uses(std::uint32_t link) const { return std::find(links.begin(), links.end(), link) != links.end(); }
  bool has_ended(Real now) const { return joins <= now && bytes <= rate * 1e-13L; }
};

/// Repeatedly picks the link that offers the smallest share to its flows without a share, among those that
/// have joined by `now`.
template <typename Flow>
void fluid_share(const Topology& topology, std::vector<Flow>& flows, Real now) {
  std::vector<bool> has(flows.size());
  std::vector<Real> left;
  for (const Link& link : topology.links)
    left.push_back(link.us_per_byte > 0 ? 1 / static_cast<Real>(link.us_per_byte) : 0);
  for (std::size_t i = 0; i < flows.size(); ++i) has[i] = flows[i].joins > now;
  for (;;) {
    Real min = std::numeric_limits<Real>::infinity();
    std::uint32_t tightest = 0;
    for (std::uint32_t link = 0; link < left.size(); ++link) {
      std::uint32_t users = 0;
      for (std::size_t i = 0; i < flows.size(); ++i) users += !has[i] && flows[i].uses(link) ? 1U : 0U;
      if (users == 0 || left[link] / users >= min) continue;
      min = left[link] / users;
      tightest = link;
    }
    if (std::isinf(min)) return;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (has[i] || !flows[i].uses(tightest)) continue;
      has[i] = true;
      flows[i].rate = min;
      for (const std::uint32_t link : flows[i].links) left[link] -= min;
    }
  }
}

/// Lets bytes flow until the next flow joins or ends, and returns that time.
template <typename Flow>
Real fluid_step(const Topology& topology, std::vector<Flow>& flows, Real now) {
  fluid_share(topology, flows, now);
  Real next = std::numeric_limits<Real>::infinity();
  for (const Flow& flow : flows)
    next = std::min(next, flow.joins > now ? flow.joins : now + flow.bytes / flow.rate);
  for (Flow& flow : flows)
    if (flow.joins <= now) flow.bytes -= flow.rate * (next - now);
  return next;
}

/// Returns a random topology of at most 12 ranks.
inline TopologySpec random_spec(support::Random& random) {
  const std::uint32_t gpus = 1 + random.below(2);
  TopologySpec spec = {.kind = static_cast<TopologyKind>(1 + random.below(4)),
                       .startup_us = random.below(3) / 2.0,
                       .gpus_per_node = gpus,
                       .inside = {random.below(3) / 3.0, random.below(3) / 2000.0},
                       .inside_is_bus = random.one_in(2),
                       .nic_behind_inside = random.one_in(2),
                       .nic = {random.below(2) / 7.0, (1 + random.below(3)) / 1000.0},
                       .nic_per_gpu = random.one_in(2),
                       .nodes_per_leaf = 2,
                       .spines = 1 + random.below(2),
                       .oversubscription = 1 + random.below(4) / 2.0,
                       .uplink_latency_us = 0.1,
                       .cable = {0.2, (1 + random.below(3)) / 1100.0},
                       .torus_columns = 2};
  return spec;
}

}  // namespace cluster
