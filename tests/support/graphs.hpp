// Task graphs from short literals and from seeds, and results of an independent Boost.Graph graph about them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/graph/topological_sort.hpp>

#include "sim/graph_algorithms.hpp"
#include "sim/simulate.hpp"
#include "sim/task_graph.hpp"
#include "tests/support/random.hpp"

namespace support {

struct TaskSpec {
  std::int64_t duration = 0;  ///< in picoseconds
  std::uint32_t stream = 0;
  std::vector<std::uint32_t> after = {};
  std::int32_t priority = 0;
};

using Specs = std::vector<TaskSpec>;

inline sim::TaskId id(std::size_t i) { return sim::TaskId{static_cast<std::uint32_t>(i)}; }

/// Creates as many streams as the tasks name.
inline sim::TaskGraph graph_of(const Specs& specs) {
  sim::TaskGraphBuilder builder;
  std::uint32_t streams = 0;
  for (const TaskSpec& spec : specs) streams = std::max(streams, spec.stream + 1);
  for (std::uint32_t i = 0; i < streams; ++i) builder.add_stream(fmt::format("stream {}", i));
  for (const TaskSpec& spec : specs)
    builder.add_task({.duration = sim::Time(spec.duration),
                      .stream = sim::StreamId{spec.stream},
                      .priority = spec.priority});
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (const std::uint32_t earlier : specs[i].after) builder.add_dependency(sim::TaskId{earlier}, id(i));
  return std::move(builder).build();
}

/// "0-3 3-5
/// 5": every task's start and end, by id, and the makespan.
inline std::string shown(const sim::Timeline& timeline) {
  std::string out;
  for (const sim::Span& span : timeline.spans)
    out += fmt::format("{}-{} ", span.start.count(), span.end.count());
  return out + fmt::format("| {}", timeline.makespan.count());
}

/// Up to 40 tasks on up to 4 streams, a third of them of zero length, edges from lower to higher ids.
inline Specs random_tasks(std::uint32_t seed) {
  Random random(seed);
  Specs specs(1 + random.below(40));
  const std::uint32_t streams = 1 + random.below(4);
  const std::uint32_t priorities = 1 + random.below(3);
  const std::uint32_t sparseness = 2 + random.below(12);
  for (std::uint32_t i = 0; i < specs.size(); ++i) {
    specs[i].duration = random.one_in(3) ? 0 : random.between(1, 9);
    specs[i].stream = random.below(streams);
    specs[i].priority = static_cast<std::int32_t>(random.below(priorities)) - 1;
    for (std::uint32_t earlier = 0; earlier < i; ++earlier)
      if (random.one_in(sparseness)) specs[i].after.push_back(earlier);
  }
  return specs;
}

/// The same tasks with an edge from each to the next on its stream.
inline Specs with_fixed_order(Specs specs) {
  for (std::uint32_t i = 0; i < specs.size(); ++i)
    for (std::uint32_t earlier = i; earlier-- > 0;)
      if (specs[earlier].stream == specs[i].stream) {
        specs[i].after.push_back(earlier);
        break;
      }
  return specs;
}

using OracleGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                          boost::property<boost::edge_weight_t, std::int64_t>>;

/// The tasks, with a source before and a sink after all of them; the weight of an edge is minus its earlier
/// task's duration.
inline OracleGraph oracle_graph(const Specs& specs) {
  OracleGraph graph(specs.size() + 2);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    boost::add_edge(specs.size(), i, 0, graph);
    boost::add_edge(i, specs.size() + 1, -specs[i].duration, graph);
    for (const std::uint32_t earlier : specs[i].after)
      boost::add_edge(earlier, i, -specs[earlier].duration, graph);
  }
  return graph;
}

/// By shortest paths over negated durations.
inline std::int64_t oracle_longest_path(const Specs& specs) {
  const OracleGraph graph = oracle_graph(specs);
  std::vector<std::int64_t> distance(boost::num_vertices(graph));
  boost::dag_shortest_paths(graph, specs.size(), boost::distance_map(distance.data()));
  return specs.empty() ? 0 : -distance.back();
}

inline bool oracle_has_cycle(const Specs& specs) {
  try {
    const OracleGraph graph = oracle_graph(specs);
    std::vector<std::size_t> order;
    boost::topological_sort(graph, std::back_inserter(order));
    return false;
  } catch (const boost::not_a_dag&) {
    return true;
  }
}

/// It goes back to back from 0 to the makespan, and each task waits for the one before, or for its stream.
inline void check_critical_path(const sim::TaskGraph& graph, const sim::Timeline& timeline) {
  const std::vector<sim::TaskId> path = sim::critical_path(graph, timeline);
  REQUIRE(!path.empty());
  CHECK(timeline.spans[index(path.front())].start == sim::Time::zero());
  CHECK(timeline.spans[index(path.back())].end == timeline.makespan);
  for (std::size_t i = 1; i < path.size(); ++i) {
    CAPTURE(i);
    REQUIRE(timeline.spans[index(path[i - 1])].end == timeline.spans[index(path[i])].start);
    const auto row = graph.successors(path[i - 1]);
    const bool depends = std::find(row.begin(), row.end(), path[i]) != row.end();
    REQUIRE((depends || graph.tasks()[index(path[i - 1])].stream == graph.tasks()[index(path[i])].stream));
  }
}

}  // namespace support
