// A network as links that messages share, and which of them a message from one rank to another passes.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/graph.hpp"

namespace cluster {

enum class TopologyKind {
  direct,      ///< every message has a link of its own: nothing is shared
  flat,        ///< nodes on one switch that is never in the way: only NICs (and inside links) are shared
  leaf_spine,  ///< nodes on leaf switches, these on spines
  ring,        ///< nodes in a circle, a cable to either neighbour; the shorter way, of equals the upward one
  torus2d,     ///< nodes in rows, first along the row, then along the column, each the shorter way
  custom       ///< any links, written out
};

/// What a topology is made from. Ranks are GPUs, node by node.
struct TopologySpec {
  TopologyKind kind = TopologyKind::flat;
  double startup_us = 0;  ///< of every message, before its bytes flow
  std::uint32_t gpus_per_node = 1;
  LinkSpec inside;             ///< from a GPU to another of its node; its latency is paid once
  bool inside_is_bus = false;  ///< one link for all of a node, both ways; else each GPU has a port out and in
  bool nic_behind_inside = false;  ///< messages to other nodes pass the inside links, too
  LinkSpec nic;  ///< out and in are two links, each with this latency; under `direct`: all of the way
  bool nic_per_gpu = false;          ///< else one for a node
  std::uint32_t nodes_per_leaf = 1;  ///< leaf_spine; the last leaf may have fewer
  std::uint32_t spines = 1;          ///< leaf_spine: every leaf has a link to and from each
  double oversubscription = 1;       ///< leaf_spine: of a leaf's NICs over its links up, in bandwidth
  double uplink_latency_us = 0;      ///< leaf_spine: of a link between leaf and spine
  LinkSpec cable;                    ///< ring, torus2d: from a node to its neighbour
  std::uint32_t torus_columns = 0;   ///< torus2d: nodes in a row
  std::uint64_t seed = 1;            ///< leaf_spine: of the spine that a pair of ranks uses (ECMP)
  std::shared_ptr<const Graph> graph = nullptr;  ///< custom, which looks at nothing else but startup_us
};

/// The same where messages start up (latencies included) `startup_factor` times and move `per_byte_factor`
/// times as slowly.
TopologySpec scaled(TopologySpec spec, double startup_factor, double per_byte_factor);

/// What a message passes; alone it takes startup + latency + bytes x us_per_byte. Bytes are charged once, at
/// the slowest link, however many there are (they flow through all at the same time).
struct Route {
  std::vector<std::uint32_t> links;  ///< indices into Topology::links
  double latency_us = 0;
  double us_per_byte = 0;
};

struct Topology {
  TopologySpec spec;
  std::uint32_t ranks = 0;
  std::vector<Link> links;
  std::shared_ptr<const GraphRoutes> routes = nullptr;  ///< custom

  /// A rank reaches itself at once. `direct` names no link, since none is shared.
  Route route(std::uint32_t from, std::uint32_t to) const;
};

/// Throws std::invalid_argument that says what is impossible.
Topology make_topology(const TopologySpec& spec, std::uint32_t ranks);

}  // namespace cluster
