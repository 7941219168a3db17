// Reads a topology that is given link by link.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/scenarios/links.hpp"

namespace scenarios {
namespace {

using cluster::Graph;
using core::Field;

/// Looks up a name. Throws InputError that suggests the nearest name if it is unknown.
template <typename Value>
const Value& known(const std::map<std::string, Value>& all, const Field& field, std::string_view expected) {
  const std::string name = field.name();
  if (const auto found = all.find(name); found != all.end()) return found->second;
  std::vector<std::string_view> names;
  names.reserve(all.size());
  for (const auto& [other, value] : all) names.push_back(other);
  field.expected(expected, fmt::format(R"("{}"{})", core::printable(name), core::suggestion(name, names)));
}

class GraphReader {
 public:
  explicit GraphReader(const Field& topology) : topology_(topology) {}

  Graph read() && {
    for (const Field& item : topology_.at("links").non_empty_items()) read_link_of(item);
    for (const Field& item : topology_.at("workers_at").non_empty_items())
      graph_.ranks_at.push_back(known(vertices_, item, "a vertex that a link joins"));
    check_gap();
    constexpr std::size_t kMaxSearched = 500'000'000;  // links, for the routes of all workers: seconds
    if (graph_.ranks_at.size() * graph_.edges.size() > kMaxSearched)
      topology_.expected(fmt::format("at most {} directions of links times workers", kMaxSearched),
                         fmt::to_string(graph_.ranks_at.size() * graph_.edges.size()));
    if (const auto routes = topology_.find("routes"))
      for (const Field& item : routes->items()) read_route(item);
    return std::move(graph_);
  }

 private:
  /// A named link: the edge from `from` to `to`, and the reverse edge if there is one.
  struct Named {
    std::uint32_t along = 0;
    std::optional<std::uint32_t> back = {};
  };

  void read_link_of(const Field& item) {
    item.allow_only({"name", "from", "to", "latency_us", "bandwidth_gbps", "bidirectional"});
    const Field name = item.at("name");
    const std::uint32_t from = vertex(item.at("from"));
    const std::uint32_t to = vertex(item.at("to"));
    const cluster::LinkSpec spec = read_link(item);
    Named edges = {
        .along = add({.link = {name.name(), spec.latency_us, spec.us_per_byte}, .from = from, .to = to})};
    const auto both_ways = item.find("bidirectional");
    if (both_ways && both_ways->boolean())
      edges.back =
          add({.link = {name.name() + " back", spec.latency_us, spec.us_per_byte}, .from = to, .to = from});
    if (!links_.emplace(name.name(), edges).second) name.expected("a name that is listed once");
  }

  std::uint32_t add(Graph::Edge edge) {
    graph_.edges.push_back(std::move(edge));
    return static_cast<std::uint32_t>(graph_.edges.size() - 1);
  }

  /// A vertex is created when it is first named.
  std::uint32_t vertex(const Field& field) {
    const auto [at, is_new] = vertices_.emplace(field.name(), graph_.vertices);
    if (is_new) {
      vertex_names_.push_back(field.name());
      ++graph_.vertices;
    }
    return at->second;
  }

  std::string shown(std::uint32_t vertex) const {
    return fmt::format("'{}'", core::printable(vertex_names_[vertex]));
  }

  void check_gap() const {
    const std::optional<cluster::Gap> gap = cluster::find_gap(graph_);
    if (!gap) return;
    const std::string first = shown(graph_.ranks_at[0]);
    const std::vector<Field> all = topology_.at("workers_at").items();
    if (gap->from == 0)
      all[gap->to].expected(fmt::format("a vertex to which links lead from {}, where worker 0 is", first));
    all[gap->from].expected(fmt::format("a vertex from which links lead to {}, where worker 0 is", first));
  }

  void read_route(const Field& item) {
    item.allow_only({"from", "to", "links"});
    const Field to = item.at("to");
    Graph::WrittenRoute route = {.from = worker(item.at("from")), .to = worker(to)};
    if (route.from == route.to) to.expected("another worker than from");
    if (!routed_.emplace(route.from, route.to).second)
      item.expected("a pair of workers that is listed once",
                    fmt::format("{} to {} again", route.from, route.to));
    std::uint32_t at = graph_.ranks_at[route.from];
    const Field links = item.at("links");
    for (const Field& link : links.items()) {
      route.edges.push_back(edge_from(at, link));
      at = graph_.edges[route.edges.back()].to;
    }
    if (std::set(route.edges.begin(), route.edges.end()).size() < route.edges.size())
      links.expected("links that are passed once", "one that is passed again");
    const std::uint32_t end = graph_.ranks_at[route.to];
    if (at != end)
      links.expected(fmt::format("links up to {}, where worker {} is", shown(end), route.to),
                     fmt::format("links up to {}", shown(at)));
    graph_.routes.push_back(std::move(route));
  }

  std::uint32_t worker(const Field& field) const {
    return static_cast<std::uint32_t>(
        field.integer(0, static_cast<std::int64_t>(graph_.ranks_at.size()) - 1));
  }

  /// The edge of a link that continues from the route's current vertex, if the link is bidirectional.
  std::uint32_t edge_from(std::uint32_t at, const Field& link) const {
    const Named& named = known(links_, link, "the name of a link");
    if (graph_.edges[named.along].from == at) return named.along;
    if (named.back && graph_.edges[*named.back].from == at) return *named.back;
    link.expected(fmt::format("a link from {}, to which the route has come", shown(at)));
  }

  const Field& topology_;
  Graph graph_;
  std::map<std::string, std::uint32_t> vertices_;
  std::vector<std::string> vertex_names_;
  std::map<std::string, Named> links_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> routed_;
};

}  // namespace

cluster::LinkSpec read_link(const Field& field) {
  const Field bandwidth = field.at("bandwidth_gbps");
  const double gbps = bandwidth.number(0, 1e9);
  if (gbps == 0) bandwidth.expected("a bandwidth above 0");
  constexpr double kBitsPerByte = 8;
  constexpr double kMegabitsPerGigabit = 1e3;  // 1 Gb/s is 1e3 bits per microsecond
  const auto latency = field.find("latency_us");
  return {.latency_us = latency ? latency->number(0, core::kMaxTimeUs) : 0,
          .us_per_byte = kBitsPerByte / (gbps * kMegabitsPerGigabit)};
}

cluster::Graph read_graph(const Field& topology) { return GraphReader(topology).read(); }

}  // namespace scenarios
