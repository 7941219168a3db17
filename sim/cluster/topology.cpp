// `links` is ordered by kind (inside, NICs, network), so that the index of each link can be computed.

#include "sim/cluster/topology.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/cluster/graph.hpp"
#include "sim/draws.hpp"

namespace cluster {
namespace {

/// Where the links of each kind begin, and numbers derived from the spec.
struct Layout {
  std::uint32_t nodes = 0;
  std::uint32_t nics = 0;  // in the whole cluster
  std::uint32_t leaves = 0;
  std::uint32_t nics_at = 0;
  std::uint32_t fabric_at = 0;

  Layout(const TopologySpec& spec, std::uint32_t ranks)
      : nodes(ranks / spec.gpus_per_node),
        nics(spec.nic_per_gpu ? ranks : nodes),
        leaves(spec.kind == TopologyKind::leaf_spine ? (nodes - 1) / spec.nodes_per_leaf + 1 : 0),
        nics_at(spec.inside_is_bus ? nodes : 2 * ranks),
        fabric_at(nics_at + 2 * nics) {}
};

void require(bool holds, const std::string& text) {
  if (!holds) throw std::invalid_argument(text);
}

void check(const char* name, const LinkSpec& link) {
  require(std::isfinite(link.latency_us) && link.latency_us >= 0,
          fmt::format("{}: expected a latency >= 0 us, got {}", name, link.latency_us));
  require(std::isfinite(link.us_per_byte) && link.us_per_byte >= 0,
          fmt::format("{}: expected us per byte >= 0, got {}", name, link.us_per_byte));
}

void check_leaf_spine(const TopologySpec& spec, std::uint32_t nodes) {
  constexpr std::uint64_t kMaxUplinks = 1'000'000;
  require(spec.nodes_per_leaf > 0, "nodes_per_leaf: expected 1 or more, got 0");
  require(spec.spines > 0, "spines: expected 1 or more, got 0");
  require(std::isfinite(spec.oversubscription) && spec.oversubscription > 0,
          fmt::format("oversubscription: expected a number > 0, got {}", spec.oversubscription));
  check("uplink", {.latency_us = spec.uplink_latency_us});
  const std::uint64_t leaves = (nodes - 1) / spec.nodes_per_leaf + 1;
  require(leaves * spec.spines <= kMaxUplinks,
          fmt::format("spines: expected at most {} uplinks of {} leaves, got {}", kMaxUplinks, leaves,
                      leaves * spec.spines));
}

void check(const TopologySpec& spec, std::uint32_t ranks) {
  require(ranks > 0, "ranks: expected 1 or more, got 0");
  require(spec.gpus_per_node > 0, "gpus_per_node: expected 1 or more, got 0");
  require(ranks % spec.gpus_per_node == 0,
          fmt::format("{} ranks do not fill nodes of {}", ranks, spec.gpus_per_node));
  require(std::isfinite(spec.startup_us) && spec.startup_us >= 0,
          fmt::format("startup: expected >= 0 us, got {}", spec.startup_us));
  check("inside", spec.inside);
  check("nic", spec.nic);
  check("cable", spec.cable);
  const std::uint32_t nodes = ranks / spec.gpus_per_node;
  if (spec.kind == TopologyKind::leaf_spine) check_leaf_spine(spec, nodes);
  if (spec.kind == TopologyKind::torus2d)
    require(spec.torus_columns > 0 && nodes % spec.torus_columns == 0,
            fmt::format("{} nodes do not fill rows of {}", nodes, spec.torus_columns));
}

void add_inside(Topology& topology, const Layout& layout) {
  const LinkSpec& inside = topology.spec.inside;
  if (topology.spec.inside_is_bus) {
    for (std::uint32_t node = 0; node < layout.nodes; ++node)
      topology.links.push_back({fmt::format("node {} bus", node), inside.latency_us, inside.us_per_byte});
    return;
  }
  for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) {
    topology.links.push_back({fmt::format("gpu {} out", rank), inside.latency_us, inside.us_per_byte});
    topology.links.push_back({fmt::format("gpu {} in", rank), 0, inside.us_per_byte});
  }
}

void add_nics(Topology& topology, const Layout& layout) {
  const LinkSpec& nic = topology.spec.nic;
  const char* of = topology.spec.nic_per_gpu ? "gpu" : "node";
  for (std::uint32_t i = 0; i < layout.nics; ++i)
    for (const char* direction : {"out", "in"})
      topology.links.push_back(
          {fmt::format("{} {} nic {}", of, i, direction), nic.latency_us, nic.us_per_byte});
}

void add_uplinks(Topology& topology, const Layout& layout) {
  const TopologySpec& spec = topology.spec;
  const double nics_per_leaf = static_cast<double>(spec.nodes_per_leaf) * layout.nics / layout.nodes;
  const double us_per_byte = spec.nic.us_per_byte * spec.oversubscription * spec.spines / nics_per_leaf;
  for (std::uint32_t leaf = 0; leaf < layout.leaves; ++leaf)
    for (std::uint32_t spine = 0; spine < spec.spines; ++spine)
      for (const char* direction : {"leaf {} to spine {}", "leaf {} from spine {}"})
        topology.links.push_back(
            {fmt::format(fmt::runtime(direction), leaf, spine), spec.uplink_latency_us, us_per_byte});
}

void add_cables(Topology& topology, const Layout& layout, const std::vector<const char*>& directions) {
  const LinkSpec& cable = topology.spec.cable;
  for (std::uint32_t node = 0; node < layout.nodes; ++node)
    for (const char* direction : directions)
      topology.links.push_back(
          {fmt::format("node {} {}", node, direction), cable.latency_us, cable.us_per_byte});
}

/// The steps from `at` to `to` on a circle of `length` in the shorter direction; upward if both are equal.
struct Walk {
  std::uint32_t steps = 0;
  bool upward = true;

  Walk(std::uint32_t at, std::uint32_t to, std::uint32_t length) {
    const std::uint32_t up = (to + length - at) % length;
    upward = up <= length - up;
    steps = upward ? up : length - up;
  }
  std::uint32_t next(std::uint32_t at, std::uint32_t length) const {
    return (at + (upward ? 1 : length - 1)) % length;
  }
};

void pass(const Topology& topology, std::uint32_t link, Route& route) {
  route.links.push_back(link);
  route.latency_us += topology.links[link].latency_us;
  route.us_per_byte = std::max(route.us_per_byte, topology.links[link].us_per_byte);
}

/// Builds the route of one message, link by link.
class Router {
 public:
  Router(const Topology& topology, Route& route)
      : topology_(topology), spec_(topology.spec), layout_(topology.spec, topology.ranks), route_(route) {}

  void go(std::uint32_t from, std::uint32_t to) {
    const std::uint32_t node_from = from / spec_.gpus_per_node;
    const std::uint32_t node_to = to / spec_.gpus_per_node;
    if (node_from == node_to) {
      inside(from, true);
      if (!spec_.inside_is_bus) inside(to, false);
      return;
    }
    if (spec_.nic_behind_inside) inside(from, true);
    pass(layout_.nics_at + 2 * nic(from));
    between(node_from, node_to, from, to);
    pass(layout_.nics_at + 2 * nic(to) + 1);
    if (spec_.nic_behind_inside) inside(to, false);
  }

 private:
  void pass(std::uint32_t link) { cluster::pass(topology_, link, route_); }

  std::uint32_t nic(std::uint32_t rank) const {
    return spec_.nic_per_gpu ? rank : rank / spec_.gpus_per_node;
  }

  void inside(std::uint32_t rank, bool out) {
    pass(spec_.inside_is_bus ? rank / spec_.gpus_per_node : 2 * rank + (out ? 0 : 1));
  }

  void between(std::uint32_t node_from, std::uint32_t node_to, std::uint32_t from, std::uint32_t to) {
    if (spec_.kind == TopologyKind::leaf_spine) through_spine(node_from, node_to, from, to);
    if (spec_.kind == TopologyKind::ring) along_ring(node_from, node_to);
    if (spec_.kind == TopologyKind::torus2d) along_torus(node_from, node_to);
  }

  void through_spine(std::uint32_t node_from, std::uint32_t node_to, std::uint32_t from, std::uint32_t to) {
    const std::uint32_t leaf_from = node_from / spec_.nodes_per_leaf;
    const std::uint32_t leaf_to = node_to / spec_.nodes_per_leaf;
    if (leaf_from == leaf_to) return;
    const auto spine = static_cast<std::uint32_t>(sim::hash(spec_.seed, from, to) % spec_.spines);
    pass(layout_.fabric_at + 2 * (leaf_from * spec_.spines + spine));
    pass(layout_.fabric_at + 2 * (leaf_to * spec_.spines + spine) + 1);
  }

  void along_ring(std::uint32_t node, std::uint32_t node_to) {
    const Walk walk(node, node_to, layout_.nodes);
    for (std::uint32_t i = 0; i < walk.steps; ++i) {
      pass(layout_.fabric_at + 2 * node + (walk.upward ? 0 : 1));
      node = walk.next(node, layout_.nodes);
    }
  }

  void along_torus(std::uint32_t node, std::uint32_t node_to) {
    const std::uint32_t columns = spec_.torus_columns;
    const std::uint32_t rows = layout_.nodes / columns;
    std::uint32_t column = node % columns;
    std::uint32_t row = node / columns;
    const auto cable = [&](std::uint32_t direction) {
      pass(layout_.fabric_at + 4 * (row * columns + column) + direction);
    };
    const Walk along(column, node_to % columns, columns);
    for (std::uint32_t i = 0; i < along.steps; ++i) {
      cable(along.upward ? 0 : 1);
      column = along.next(column, columns);
    }
    const Walk across(row, node_to / columns, rows);
    for (std::uint32_t i = 0; i < across.steps; ++i) {
      cable(across.upward ? 2 : 3);
      row = across.next(row, rows);
    }
  }

  const Topology& topology_;
  const TopologySpec& spec_;
  Layout layout_;
  Route& route_;
};

}  // namespace

TopologySpec scaled(TopologySpec spec, double startup_factor, double per_byte_factor) {
  spec.startup_us *= startup_factor;
  spec.uplink_latency_us *= startup_factor;
  for (LinkSpec* link : {&spec.inside, &spec.nic, &spec.cable}) {
    link->latency_us *= startup_factor;
    link->us_per_byte *= per_byte_factor;
  }
  if (spec.graph) {
    Graph graph = *spec.graph;
    for (Graph::Edge& edge : graph.edges) {
      edge.link.latency_us *= startup_factor;
      edge.link.us_per_byte *= per_byte_factor;
    }
    spec.graph = std::make_shared<const Graph>(std::move(graph));
  }
  return spec;
}

Route Topology::route(std::uint32_t from, std::uint32_t to) const {
  assert(from < ranks && to < ranks);
  Route route;
  if (from == to) return route;
  if (spec.kind == TopologyKind::direct) {
    const bool same_node = from / spec.gpus_per_node == to / spec.gpus_per_node;
    const LinkSpec& link = same_node ? spec.inside : spec.nic;
    return {.links = {}, .latency_us = link.latency_us, .us_per_byte = link.us_per_byte};
  }
  if (spec.kind == TopologyKind::custom)
    for (const std::uint32_t link : routes->route(from, to)) pass(*this, link, route);
  else
    Router(*this, route).go(from, to);
  return route;
}

namespace {

Topology make_custom(const TopologySpec& spec, std::uint32_t ranks) {
  require(spec.graph != nullptr, "custom: expected a graph, got none");
  check(*spec.graph, ranks);
  Topology topology = {.spec = spec, .ranks = ranks, .links = {}};
  for (const Graph::Edge& edge : spec.graph->edges) {
    check(edge.link.name.c_str(), {edge.link.latency_us, edge.link.us_per_byte});
    topology.links.push_back(edge.link);
  }
  topology.routes = std::make_shared<GraphRoutes>(*spec.graph, ranks);
  return topology;
}

}  // namespace

Topology make_topology(const TopologySpec& spec, std::uint32_t ranks) {
  check(spec, ranks);
  if (spec.kind == TopologyKind::custom) return make_custom(spec, ranks);
  Topology topology = {.spec = spec, .ranks = ranks, .links = {}};
  if (spec.kind == TopologyKind::direct) return topology;
  const Layout layout(spec, ranks);
  add_inside(topology, layout);
  add_nics(topology, layout);
  if (spec.kind == TopologyKind::leaf_spine) add_uplinks(topology, layout);
  if (spec.kind == TopologyKind::ring) add_cables(topology, layout, {"up", "down"});
  if (spec.kind == TopologyKind::torus2d) add_cables(topology, layout, {"right", "left", "below", "above"});
  return topology;
}

}  // namespace cluster
