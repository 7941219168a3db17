// Describes a network as links that messages share, and the links that a message between two ranks passes.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/graph.hpp"

namespace cluster {

enum class TopologyKind {
  direct,      ///< every message has a link of its own: nothing is shared
  flat,        ///< nodes on one switch of unlimited bandwidth: only NICs (and inside links) are shared
  leaf_spine,  ///< nodes on leaf switches, which are connected by spines
  /// Nodes in a circle with a cable to either neighbour; messages take the shorter direction, upward if
  /// equal.
  ring,
  torus2d,  ///< nodes in a grid; messages go along the row, then the column, each in the shorter direction
  custom    ///< any links, written out
};

/// The parameters of a topology. Ranks are GPUs, node by node.
struct TopologySpec {
  TopologyKind kind = TopologyKind::flat;
  double startup_us = 0;  ///< of every message, before its bytes flow
  std::uint32_t gpus_per_node = 1;
  LinkSpec inside;  ///< from a GPU to another GPU of its node; its latency is paid once
  /// One link per node for both directions; otherwise each GPU has a port out and a port in.
  bool inside_is_bus = false;
  bool nic_behind_inside = false;  ///< messages to other nodes pass the inside links, too
  LinkSpec nic;  ///< out and in are two links, each with this latency; for `direct`: the whole path
  bool nic_per_gpu = false;          ///< otherwise one per node
  std::uint32_t nodes_per_leaf = 1;  ///< leaf_spine; the last leaf may have fewer
  std::uint32_t spines = 1;          ///< leaf_spine: every leaf has a link to and from each
  double oversubscription = 1;  ///< leaf_spine: bandwidth of a leaf's NICs / bandwidth of its links to spines
  double uplink_latency_us = 0;     ///< leaf_spine: latency of a link between leaf and spine
  LinkSpec cable;                   ///< ring, torus2d: from a node to its neighbour
  std::uint32_t torus_columns = 0;  ///< torus2d: nodes in a row
  std::uint64_t seed = 1;           ///< leaf_spine: selects the spine that a pair of ranks uses (ECMP)
  std::shared_ptr<const Graph> graph = nullptr;  ///< custom, which uses nothing else but startup_us
};

/// Returns the spec with startups and latencies multiplied by `startup_factor` and times per byte by
/// `per_byte_factor`.
TopologySpec scaled(TopologySpec spec, double startup_factor, double per_byte_factor);

/// The links that a message passes; alone it takes startup + latency + bytes x us_per_byte. Bytes are charged
/// once, at the slowest link, because they flow through all links at the same time.
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

  /// A message of a rank to itself takes no time. `direct` has no links, because none is shared.
  Route route(std::uint32_t from, std::uint32_t to) const;
};

/// Throws std::invalid_argument with the reason if the spec is impossible.
Topology make_topology(const TopologySpec& spec, std::uint32_t ranks);

}  // namespace cluster
