// A network written out link by link, and the route that a message takes from one rank to another.

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
  double us_per_byte = 0;  ///< 1 / bandwidth; 0: unlimited
  bool operator==(const Link&) const = default;
};

struct LinkSpec {
  double latency_us = 0;
  double us_per_byte = 0;
};

struct Graph {
  struct Edge {
    Link link;
    std::uint32_t from = 0;  ///< a vertex
    std::uint32_t to = 0;
  };
  /// An explicit route from one rank to another, used instead of the shortest one.
  struct WrittenRoute {
    std::uint32_t from = 0;  ///< a rank
    std::uint32_t to = 0;
    std::vector<std::uint32_t> edges;  ///< each edge begins where the one before ends
  };

  std::uint32_t vertices = 0;
  std::vector<Edge> edges;
  std::vector<std::uint32_t> ranks_at;  ///< the vertex of each rank; a smaller cluster uses the first ones
  std::vector<WrittenRoute> routes;
};

/// Two ranks that no path connects in this direction.
struct Gap {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};
/// One of the two ranks is rank 0. Returns nothing if every rank can send to every other.
std::optional<Gap> find_gap(const Graph& graph);

/// Throws std::invalid_argument with the reason if `ranks` ranks cannot use the graph.
void check(const Graph& graph, std::uint32_t ranks);

/// The routes between the first `ranks` ranks of a graph that has passed check(). Without an explicit route a
/// message takes as few links as possible; among such routes the one with the lowest latency, in whole
/// picoseconds; then the one whose first link comes first among the edges, then its second, and so on.
class GraphRoutes {
 public:
  /// Upper limit for vertices x vertices with ranks; each entry takes four bytes.
  static constexpr double kMaxEntries = 2e8;

  GraphRoutes(const Graph& graph, std::uint32_t ranks);

  /// Returns the edges of the route; empty between ranks at the same vertex, unless a route is written.
  std::vector<std::uint32_t> route(std::uint32_t from, std::uint32_t to) const;

 private:
  std::uint32_t vertices_;
  std::vector<std::uint32_t> ranks_at_;
  std::vector<std::uint32_t> edge_ends_;
  std::vector<std::uint32_t> row_of_;  // indexed by vertex: its row in next_
  // Indexed by row and vertex: the edge to take there towards the row's vertex.
  std::vector<std::uint32_t> next_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> written_;
};

}  // namespace cluster
