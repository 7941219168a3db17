// Explicit networks: the route of a message, compared with a search of all routes.

#include "sim/cluster/graph.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/cluster/topology.hpp"
#include "sim/time.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using support::Random;

constexpr std::uint32_t kSeeds = 300;

Graph::Edge edge(std::uint32_t from, std::uint32_t to, double latency_us = 1, double us_per_byte = 0.5) {
  return {.link = {fmt::format("{}-{}", from, to), latency_us, us_per_byte}, .from = from, .to = to};
}

/// Ranks are at the first vertices.
Graph graph_of(std::uint32_t ranks, std::vector<Graph::Edge> edges) {
  Graph out;
  out.edges = std::move(edges);
  for (const Graph::Edge& each : out.edges)
    out.vertices = std::max({out.vertices, each.from + 1, each.to + 1});
  for (std::uint32_t rank = 0; rank < ranks; ++rank) out.ranks_at.push_back(rank);
  return out;
}

Topology topology_of(Graph graph) {
  const auto ranks = static_cast<std::uint32_t>(graph.ranks_at.size());
  return make_topology({.kind = TopologyKind::custom, .graph = std::make_shared<Graph>(std::move(graph))},
                       ranks);
}

std::string route_text(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  std::vector<std::string> names;
  for (const std::uint32_t link : topology.route(from, to).links) names.push_back(topology.links[link].name);
  return fmt::format("{}", fmt::join(names, " "));
}

TEST_CASE("graph: the way of fewest links, of these the least latency, of these the first links") {
  //        2
  //   0 <     > 1     by 2, 3 or 4 in two links, by 5 and 6 in three
  //        3, 4
  const auto with = [](double by_2, double by_3, double by_4) {
    return graph_of(2, {edge(0, 5, 0), edge(5, 6, 0), edge(6, 1, 0), edge(0, 4, by_4), edge(0, 3, by_3),
                        edge(0, 2, by_2), edge(2, 1), edge(3, 1), edge(4, 1), edge(1, 0)});
  };
  CHECK(route_text(topology_of(with(3, 2, 4)), 0, 1) == "0-3 3-1");
  CHECK(route_text(topology_of(with(1, 2, 4)), 0, 1) == "0-2 2-1");
  CHECK(route_text(topology_of(with(2, 2, 4)), 0, 1) == "0-3 3-1");  // whose first link stands before 0-2
  CHECK(route_text(topology_of(with(2, 2, 2)), 0, 1) == "0-4 4-1");
  CHECK(route_text(topology_of(with(2, 2, 2)), 1, 0) == "1-0");
  // Latencies that differ by less than a picosecond count as equal.
  CHECK(route_text(topology_of(with(2, 2, 2 + 1e-7)), 0, 1) == "0-4 4-1");
}

TEST_CASE("graph: latencies add and the slowest link decides") {
  const Topology topology =
      topology_of(graph_of(2, {edge(0, 2, 3, 0.5), edge(2, 1, 4, 0.25), edge(1, 0, 5, 0.125)}));
  CHECK(topology.route(0, 1).latency_us == 7);
  CHECK(topology.route(0, 1).us_per_byte == 0.5);
  CHECK(topology.route(1, 0).latency_us == 5);
  CHECK(topology.route(0, 0).links.empty());
}

TEST_CASE("graph: a written route goes before the usual one, for its ranks in its direction alone") {
  Graph graph = graph_of(2, {edge(0, 1), edge(1, 0), edge(0, 2), edge(2, 1)});
  graph.ranks_at = {0, 1, 0, 0};
  graph.edges.push_back(edge(0, 0));
  graph.routes = {{.from = 0, .to = 1, .edges = {2, 3}}, {.from = 2, .to = 3, .edges = {4}}};
  const Topology topology = topology_of(graph);
  CHECK(route_text(topology, 0, 1) == "0-2 2-1");
  CHECK(route_text(topology, 1, 0) == "1-0");
  CHECK(route_text(topology, 2, 1) == "0-1");  // another rank at the same vertex
  CHECK(route_text(topology, 0, 2).empty());   // there already
  CHECK(route_text(topology, 2, 3) == "0-0");
}

/// Enumerates all paths that visit no vertex twice.
struct Search {
  const Graph& graph;
  std::uint32_t target;
  std::vector<bool> seen = std::vector<bool>(graph.vertices);
  std::vector<std::uint32_t> now = {};
  std::int64_t latency_ps = 0;
  std::tuple<std::size_t, std::int64_t, std::vector<std::uint32_t>> best = {SIZE_MAX, 0, {}};

  void from(std::uint32_t vertex) {
    if (vertex == target) best = std::min(best, {now.size(), latency_ps, now});
    seen[vertex] = true;
    for (std::uint32_t i = 0; i < graph.edges.size(); ++i) {
      const Graph::Edge& next = graph.edges[i];
      if (next.from != vertex || seen[next.to]) continue;
      const std::int64_t ps = sim::from_us(next.link.latency_us).count();
      now.push_back(i);
      latency_ps += ps;
      from(next.to);
      latency_ps -= ps;
      now.pop_back();
    }
    seen[vertex] = false;
  }
};

TEST_CASE("graph: ways are the best of all ways, and ranks that none joins are found") {
  std::uint32_t gaps = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t vertices = 2 + random.below(5);
    Graph graph;
    graph.vertices = vertices;
    for (std::uint32_t i = 0; i < vertices + random.below(3 * vertices); ++i)
      graph.edges.push_back(edge(random.below(vertices), random.below(vertices), random.below(3) * 0.1));
    for (std::uint32_t i = 0; i < 1 + random.below(vertices); ++i)
      graph.ranks_at.push_back(random.below(vertices));
    const auto ranks = static_cast<std::uint32_t>(graph.ranks_at.size());
    const auto best = [&](std::uint32_t from, std::uint32_t to) {
      Search search = {.graph = graph, .target = graph.ranks_at[to]};
      search.from(graph.ranks_at[from]);
      return search.best;
    };
    if (const auto gap = find_gap(graph)) {
      ++gaps;
      CHECK((gap->from == 0 || gap->to == 0));
      CHECK(std::get<0>(best(gap->from, gap->to)) == SIZE_MAX);
      CHECK_THROWS_AS(topology_of(graph), std::invalid_argument);
      continue;
    }
    const Topology topology = topology_of(graph);
    for (std::uint32_t from = 0; from < ranks; ++from)
      for (std::uint32_t to = 0; to < ranks; ++to)
        CHECK(topology.route(from, to).links == std::get<2>(best(from, to)));
  }
  CHECK(gaps > kSeeds / 10);
  CHECK(gaps < kSeeds * 9 / 10);
}

TEST_CASE("graph: fewer ranks are the first ones") {
  Graph graph = graph_of(3, {edge(0, 1), edge(1, 2), edge(2, 0)});
  const TopologySpec spec = {.kind = TopologyKind::custom, .graph = std::make_shared<Graph>(graph)};
  CHECK(route_text(make_topology(spec, 2), 1, 0) == "1-2 2-0");
}

std::string error_of(const Graph& graph) {
  try {
    topology_of(graph);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("graph: what is impossible is named") {
  const Graph good = graph_of(2, {edge(0, 1), edge(1, 0)});
  CHECK(error_of(good) == "none");
  CHECK_THROWS_WITH_AS(
      make_topology({.kind = TopologyKind::custom, .graph = std::make_shared<Graph>(good)}, 3),
      "2 of 3 ranks have a vertex", std::invalid_argument);
  CHECK_THROWS_WITH_AS(make_topology({.kind = TopologyKind::custom}, 3), "custom: expected a graph, got none",
                       std::invalid_argument);
  Graph graph = good;
  graph.routes = {{.from = 0, .to = 1, .edges = {1}}};
  CHECK(error_of(graph) == "the links of the route from rank 0 to rank 1 do not join them");
  graph.routes = {{.from = 0, .to = 1, .edges = {0, 1}}};
  CHECK(error_of(graph) == "the links of the route from rank 0 to rank 1 do not join them");
  graph.routes = {{.from = 0, .to = 2, .edges = {}}};
  CHECK(error_of(graph) == "a route from rank 0 to rank 2");
  graph = good;
  graph.edges[1].to = 2;
  CHECK(error_of(graph) == "link '1-0' joins no vertices");
  graph = good;
  graph.edges[1].link.latency_us = -1;
  CHECK(error_of(graph) == "1-0: expected a latency >= 0 us, got -1");
  graph = good;
  graph.ranks_at[1] = 7;
  CHECK(error_of(graph) == "a rank at no vertex");
  graph = good;
  graph.edges.pop_back();
  CHECK(error_of(graph) == "no links lead from rank 1 to rank 0");
}

}  // namespace
}  // namespace cluster
