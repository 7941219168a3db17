// A network written out link by link, and the way that a message takes on it from one rank to another.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cluster {

/// One direction of a cable, port or bus.
struct Link {
  std::string name;
  double latency_us = 0;
  double us_per_byte = 0;  ///< 1 / bandwidth; 0: never in the way
  bool operator==(const Link&) const = default;
};

struct LinkSpec {
  double latency_us = 0;
  double us_per_byte = 0;
};

struct Graph {
  struct Edge {
    Link link;
    std::uint32_t from = 0;  ///< vertex
    std::uint32_t to = 0;
  };
  /// The way from one rank to another where it is not the usual one.
  struct WrittenRoute {
    std::uint32_t from = 0;  ///< rank
    std::uint32_t to = 0;
    std::vector<std::uint32_t> edges;  ///< each begins where the one before ends
  };

  std::uint32_t vertices = 0;
  std::vector<Edge> edges;
  std::vector<std::uint32_t> ranks_at;  ///< the vertex of each rank; fewer ranks are the first of these
  std::vector<WrittenRoute> routes;
};

/// Two ranks that no links join in this direction.
struct Gap {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
/// With rank 0 on one side. None: every rank can send to every other.
std::optional<Gap> find_gap(const Graph& graph);

/// Throws std::invalid_argument that says what is impossible about `ranks` ranks on the graph.
void check(const Graph& graph, std::uint32_t ranks);

/// The ways between the first `ranks` ranks of a graph that has passed check(). Where no route is written a
/// message takes as few links as can be; of such ways the one with the least latency, in whole picoseconds;
/// of these the one whose first link stands first among the edges, then its second, and so on.
class GraphRoutes {
 public:
  /// Vertices x vertices with ranks, of which each costs four bytes, are at most this.
  static constexpr double kMaxEntries = 2e8;

  GraphRoutes(const Graph& graph, std::uint32_t ranks);

  /// The edges on the way; none between ranks at the same vertex, unless they are written.
  std::vector<std::uint32_t> transfer(std::uint32_t from, std::uint32_t to) const;

 private:
  std::uint32_t vertices_;
  std::vector<std::uint32_t> ranks_at_;
  std::vector<std::uint32_t> edge_ends_;
  std::vector<std::uint32_t> row_of_;  // by vertex: of next_
  std::vector<std::uint32_t> next_;    // by row and vertex: the edge to take there towards the row's vertex
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> written_;
};

}  // namespace cluster
