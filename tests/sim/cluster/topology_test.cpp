// Topologies: the links that a message passes, and their cost.

#include "sim/cluster/topology.hpp"

#include <set>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

namespace cluster {
namespace {

/// Returns the names of the links of the route.
std::string route_text(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  std::string out;
  for (const std::uint32_t link : topology.route(from, to).links)
    out += (out.empty() ? "" : ", ") + topology.links[link].name;
  return out;
}

TEST_CASE("topology: inside a node from port to port, to another node by the node's NIC") {
  const Topology topology = make_topology({.gpus_per_node = 4, .inside = {2, 0.1}, .nic = {3, 0.7}}, 8);
  CHECK(route_text(topology, 1, 3) == "gpu 1 out, gpu 3 in");
  CHECK(topology.route(1, 3).latency_us == 2);
  CHECK(topology.route(1, 3).us_per_byte == 0.1);
  CHECK(route_text(topology, 1, 6) == "node 0 nic out, node 1 nic in");
  CHECK(topology.route(1, 6).latency_us == 6);
  CHECK(topology.route(1, 6).us_per_byte == 0.7);
}

TEST_CASE("topology: a bus is one link both ways, and NICs may stand behind it") {
  TopologySpec spec = {.gpus_per_node = 2, .inside = {2, 0.1}, .inside_is_bus = true, .nic = {3, 0.05}};
  CHECK(route_text(make_topology(spec, 4), 0, 1) == "node 0 bus");
  CHECK(route_text(make_topology(spec, 4), 1, 0) == "node 0 bus");
  CHECK(make_topology(spec, 4).route(1, 0).latency_us == 2);
  spec.nic_behind_inside = true;
  spec.nic_per_gpu = true;
  const Topology topology = make_topology(spec, 4);
  CHECK(route_text(topology, 1, 2) == "node 0 bus, gpu 1 nic out, gpu 2 nic in, node 1 bus");
  CHECK(topology.route(1, 2).us_per_byte == 0.1);  // the slowest of them
  CHECK(topology.route(1, 2).latency_us == 10);
  spec.inside_is_bus = false;
  CHECK(route_text(make_topology(spec, 4), 1, 2) == "gpu 1 out, gpu 1 nic out, gpu 2 nic in, gpu 2 in");
}

TEST_CASE("topology: to itself and directly nothing is shared") {
  const Topology topology = make_topology(
      {.kind = TopologyKind::direct, .gpus_per_node = 2, .inside = {1, 0.1}, .nic = {2, 0.2}}, 4);
  CHECK(topology.links.empty());
  CHECK(topology.route(0, 1).latency_us == 1);
  CHECK(topology.route(0, 2).us_per_byte == 0.2);
  const Topology flat = make_topology({.nic = {2, 0.2}}, 4);
  CHECK(flat.route(3, 3).links.empty());
  CHECK(flat.route(3, 3).us_per_byte == 0);
}

TEST_CASE("topology: leaves share links to spines, slower by the oversubscription") {
  const TopologySpec spec = {.kind = TopologyKind::leaf_spine,
                             .gpus_per_node = 2,
                             .nic = {1, 0.2},
                             .nodes_per_leaf = 4,
                             .spines = 1,
                             .oversubscription = 2,
                             .uplink_latency_us = 5};
  const Topology topology = make_topology(spec, 18);  // 9 nodes: leaves of 4, 4 and 1
  CHECK(route_text(topology, 0, 7) == "node 0 nic out, node 3 nic in");
  CHECK(route_text(topology, 0, 8) ==
        "node 0 nic out, leaf 0 to spine 0, leaf 1 from spine 0, node 4 nic in");
  CHECK(route_text(topology, 17, 8) ==
        "node 8 nic out, leaf 2 to spine 0, leaf 1 from spine 0, node 4 nic in");
  CHECK(topology.route(0, 8).latency_us == 12);
  CHECK(topology.route(0, 8).us_per_byte == 0.2);
  // four NICs of 5 bytes/us over one link up of 20 / 2
  CHECK(topology.links[topology.route(0, 8).links[1]].us_per_byte == doctest::Approx(0.1));
  TopologySpec more = spec;
  more.nic_per_gpu = true;
  more.spines = 4;
  // eight of 5 bytes/us over four of 20 / 4
  const Topology wide = make_topology(more, 18);
  CHECK(wide.links[wide.route(0, 8).links[1]].us_per_byte == doctest::Approx(0.2));
}

TEST_CASE("topology: a pair of ranks always uses the same spine, pairs use all") {
  const Topology topology =
      make_topology({.kind = TopologyKind::leaf_spine, .nodes_per_leaf = 8, .spines = 4}, 16);
  std::set<std::uint32_t> used;
  for (std::uint32_t from = 0; from < 8; ++from)
    for (std::uint32_t to = 8; to < 16; ++to) {
      const Route route = topology.route(from, to);
      CHECK(route.links == topology.route(from, to).links);
      CHECK(topology.links[route.links[1]].name.back() == topology.links[route.links[2]].name.back());
      used.insert(route.links[1]);
    }
  CHECK(used.size() == 4);
}

TEST_CASE("topology: around a ring the shorter way, of equals the upward one") {
  const Topology topology = make_topology({.kind = TopologyKind::ring, .cable = {1, 0.5}}, 6);
  CHECK(route_text(topology, 4, 0) == "node 4 nic out, node 4 up, node 5 up, node 0 nic in");
  CHECK(route_text(topology, 1, 5) == "node 1 nic out, node 1 down, node 0 down, node 5 nic in");
  CHECK(route_text(topology, 0, 3) == "node 0 nic out, node 0 up, node 1 up, node 2 up, node 3 nic in");
  CHECK(topology.route(0, 3).latency_us == 3);
  CHECK(topology.route(0, 3).us_per_byte == 0.5);
}

TEST_CASE("topology: on a torus first along the row, then along the column") {
  //  0  1  2  3
  //  4  5  6  7
  //  8  9 10 11
  const Topology topology = make_topology({.kind = TopologyKind::torus2d, .torus_columns = 4}, 12);
  CHECK(route_text(topology, 0, 9) == "node 0 nic out, node 0 right, node 1 above, node 9 nic in");
  CHECK(route_text(topology, 0, 7) == "node 0 nic out, node 0 left, node 3 below, node 7 nic in");
  CHECK(route_text(topology, 1, 3) == "node 1 nic out, node 1 right, node 2 right, node 3 nic in");
  CHECK(route_text(topology, 11, 3) == "node 11 nic out, node 11 below, node 3 nic in");
}

TEST_CASE("topology: every route of every kind is made of its links, and there and back it is as long") {
  for (const TopologyKind kind :
       {TopologyKind::flat, TopologyKind::leaf_spine, TopologyKind::ring, TopologyKind::torus2d})
    for (const std::uint32_t columns : {1U, 2U, 3U, 6U}) {
      const Topology topology = make_topology(
          {.kind = kind, .gpus_per_node = 2, .nodes_per_leaf = columns, .torus_columns = columns}, 12);
      std::set<std::uint32_t> used;
      for (std::uint32_t from = 0; from < 12; ++from)
        for (std::uint32_t to = 0; to < 12; ++to) {
          const Route there = topology.route(from, to);
          const std::set<std::uint32_t> links(there.links.begin(), there.links.end());
          CHECK(links.size() == there.links.size());
          CHECK(there.links.size() == topology.route(to, from).links.size());
          used.insert(links.begin(), links.end());
        }
      CHECK((used.empty() || *used.rbegin() < topology.links.size()));
    }
}

std::string error_of(const TopologySpec& spec, std::uint32_t ranks) {
  try {
    make_topology(spec, ranks);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("topology: impossible values are named") {
  CHECK(error_of({.gpus_per_node = 4}, 10) == "10 ranks do not fill nodes of 4");
  CHECK(error_of({}, 0) == "ranks: expected 1 or more, got 0");
  CHECK(error_of({.gpus_per_node = 0}, 2) == "gpus_per_node: expected 1 or more, got 0");
  CHECK(error_of({.startup_us = -1}, 2) == "startup: expected >= 0 us, got -1");
  CHECK(error_of({.nic = {-1, 0}}, 2) == "nic: expected a latency >= 0 us, got -1");
  CHECK(error_of({.inside = {0, -0.5}}, 2) == "inside: expected us per byte >= 0, got -0.5");
  CHECK(error_of({.kind = TopologyKind::torus2d, .torus_columns = 3}, 8) == "8 nodes do not fill rows of 3");
  CHECK(error_of({.kind = TopologyKind::torus2d}, 8) == "8 nodes do not fill rows of 0");
  CHECK(error_of({.kind = TopologyKind::leaf_spine, .nodes_per_leaf = 0}, 8) ==
        "nodes_per_leaf: expected 1 or more, got 0");
  CHECK(error_of({.kind = TopologyKind::leaf_spine, .spines = 0}, 8) == "spines: expected 1 or more, got 0");
  CHECK(error_of({.kind = TopologyKind::leaf_spine, .oversubscription = 0}, 8) ==
        "oversubscription: expected a number > 0, got 0");
  CHECK(error_of({.nodes_per_leaf = 0, .spines = 0}, 8) == "none");  // not asked for
}

}  // namespace
}  // namespace cluster
