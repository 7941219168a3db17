// Routes are searched backwards from their target, breadth first, so that each vertex knows its best next
// link.

#include "sim/cluster/graph.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/time.hpp"

namespace cluster {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

enum class Direction { along, against };

std::uint32_t begin_of(const Graph::Edge& edge, Direction direction) {
  return direction == Direction::along ? edge.from : edge.to;
}
std::uint32_t end_of(const Graph::Edge& edge, Direction direction) {
  return direction == Direction::along ? edge.to : edge.from;
}

/// The edges of each vertex, in their original order.
class Incidence {
 public:
  Incidence(const Graph& graph, Direction direction)
      : begins_(graph.vertices + std::size_t{1}), edges_(graph.edges.size()) {
    for (const Graph::Edge& edge : graph.edges) ++begins_[begin_of(edge, direction) + std::size_t{1}];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::uint32_t> next = begins_;
    for (std::uint32_t i = 0; i < graph.edges.size(); ++i)
      edges_[next[begin_of(graph.edges[i], direction)]++] = i;
  }

  std::span<const std::uint32_t> of(std::uint32_t vertex) const {
    return std::span(edges_).subspan(begins_[vertex], begins_[vertex + std::size_t{1}] - begins_[vertex]);
  }

 private:
  std::vector<std::uint32_t> begins_;  // indexed by vertex
  std::vector<std::uint32_t> edges_;
};

/// Returns the first rank that cannot be reached from rank 0.
std::optional<std::uint32_t> unreached(const Graph& graph, Direction direction) {
  const Incidence incidence(graph, direction);
  std::vector<bool> seen(graph.vertices);
  std::vector<std::uint32_t> queue = {graph.ranks_at.front()};
  seen[queue.front()] = true;
  for (std::size_t i = 0; i < queue.size();)  // grows during the loop
    for (const std::uint32_t edge : incidence.of(queue[i++])) {
      const std::uint32_t other = end_of(graph.edges[edge], direction);
      if (!seen[other]) queue.push_back(other);
      seen[other] = true;
    }
  for (std::uint32_t rank = 0; rank < graph.ranks_at.size(); ++rank)
    if (!seen[graph.ranks_at[rank]]) return rank;
  return std::nullopt;
}

void require(bool holds, const std::string& text) {
  if (!holds) throw std::invalid_argument(text);
}

void check_route(const Graph& graph, const Graph::WrittenRoute& route) {
  require(route.from < graph.ranks_at.size() && route.to < graph.ranks_at.size() && route.from != route.to,
          fmt::format("a route from rank {} to rank {}", route.from, route.to));
  std::uint32_t at = graph.ranks_at[route.from];
  bool joins = true;
  for (const std::uint32_t edge : route.edges) {
    joins = joins && edge < graph.edges.size() && graph.edges[edge].from == at;
    if (joins) at = graph.edges[edge].to;
  }
  require(
      joins && at == graph.ranks_at[route.to],
      fmt::format("the links of the route from rank {} to rank {} do not join them", route.from, route.to));
}

/// The best route from a vertex to the target.
struct Best {
  std::uint32_t links = kNone;
  sim::Time latency{};
};

/// Finds the routes to one vertex after the other.
class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), into_(graph, Direction::against) {
    for (const Graph::Edge& edge : graph.edges) latencies_.push_back(sim::from_us(edge.link.latency_us));
  }

  /// Writes into `next`, indexed by vertex, the edge to take towards `target`; kNone where there is none.
  void run(std::uint32_t target, std::span<std::uint32_t> next) {
    best_.assign(graph_.vertices, {});
    std::ranges::fill(next, kNone);
    queue_ = {target};
    best_[target].links = 0;
    // All vertices of one distance are final before any of the next distance is visited.
    for (std::size_t i = 0; i < queue_.size();)  // grows during the loop
      for (const std::uint32_t edge : into_.of(queue_[i++])) offer(edge, next);
  }

 private:
  void offer(std::uint32_t edge, std::span<std::uint32_t> next) {
    const Graph::Edge& taken = graph_.edges[edge];
    const std::uint32_t links = best_[taken.to].links + 1;
    const sim::Time rest = best_[taken.to].latency;
    const sim::Time latency = rest + std::min(latencies_[edge], sim::Time::max() - rest);
    Best& known = best_[taken.from];
    if (known.links < links) return;
    const bool is_first = known.links == kNone;
    if (!is_first && (latency > known.latency || (latency == known.latency && edge > next[taken.from])))
      return;
    if (is_first) queue_.push_back(taken.from);
    known = {.links = links, .latency = latency};
    next[taken.from] = edge;
  }

  const Graph& graph_;
  Incidence into_;
  std::vector<sim::Time> latencies_;  // indexed by edge
  std::vector<Best> best_;            // indexed by vertex
  std::vector<std::uint32_t> queue_;
};

}  // namespace

std::optional<Gap> find_gap(const Graph& graph) {
  if (graph.ranks_at.empty()) return std::nullopt;
  if (const auto rank = unreached(graph, Direction::along)) return Gap{.from = 0, .to = *rank};
  if (const auto rank = unreached(graph, Direction::against)) return Gap{.from = *rank, .to = 0};
  return std::nullopt;
}

void check(const Graph& graph, std::uint32_t ranks) {
  require(ranks <= graph.ranks_at.size(),
          fmt::format("{} of {} ranks have a vertex", graph.ranks_at.size(), ranks));
  for (const Graph::Edge& edge : graph.edges)
    require(edge.from < graph.vertices && edge.to < graph.vertices,
            fmt::format("link '{}' joins no vertices", edge.link.name));
  for (const std::uint32_t vertex : graph.ranks_at) require(vertex < graph.vertices, "a rank at no vertex");
  for (const Graph::WrittenRoute& route : graph.routes) check_route(graph, route);
  if (const std::optional<Gap> gap = find_gap(graph))
    throw std::invalid_argument(fmt::format("no links lead from rank {} to rank {}", gap->from, gap->to));
}

GraphRoutes::GraphRoutes(const Graph& graph, std::uint32_t ranks)
    : vertices_(graph.vertices),
      ranks_at_(graph.ranks_at.begin(), graph.ranks_at.begin() + ranks),
      row_of_(graph.vertices, kNone) {
  for (const Graph::Edge& edge : graph.edges) edge_ends_.push_back(edge.to);
  for (const Graph::WrittenRoute& route : graph.routes) written_[{route.from, route.to}] = route.edges;
  std::vector<std::uint32_t> targets;
  for (const std::uint32_t vertex : ranks_at_) {
    if (row_of_[vertex] != kNone) continue;
    row_of_[vertex] = static_cast<std::uint32_t>(targets.size());
    targets.push_back(vertex);
  }
  const std::size_t entries = targets.size() * std::size_t{vertices_};
  require(static_cast<double>(entries) <= kMaxEntries,
          fmt::format("{} vertices, {} of them with ranks", vertices_, targets.size()));
  next_.resize(entries);
  Finder finder(graph);
  for (std::size_t row = 0; row < targets.size(); ++row)
    finder.run(targets[row], std::span(next_).subspan(row * vertices_, vertices_));
}

std::vector<std::uint32_t> GraphRoutes::route(std::uint32_t from, std::uint32_t to) const {
  if (const auto written = written_.find({from, to}); written != written_.end()) return written->second;
  const std::uint32_t end = ranks_at_[to];
  const std::size_t row = std::size_t{row_of_[end]} * vertices_;
  std::vector<std::uint32_t> out;
  for (std::uint32_t at = ranks_at_[from]; at != end; at = edge_ends_[out.back()])
    out.push_back(next_[row + at]);
  return out;
}

}  // namespace cluster
