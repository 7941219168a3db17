// Order, cycle and critical path, against a boost::adjacency_list built independently.

#include "sim/graph_algorithms.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/graphs.hpp"

namespace sim {
namespace {

using support::graph_of;
using support::id;
using support::random_tasks;
using support::Specs;

constexpr std::uint32_t kSeeds = 500;

bool has_edge(const TaskGraph& graph, TaskId earlier, TaskId later) {
  const auto row = graph.successors(earlier);
  return std::find(row.begin(), row.end(), later) != row.end();
}

std::vector<std::size_t> indices(const std::vector<TaskId>& tasks) {
  std::vector<std::size_t> out;
  out.reserve(tasks.size());
  for (const TaskId task : tasks) out.push_back(index(task));
  return out;
}

/// Random edges in both directions: about half of these graphs have a cycle.
Specs random_digraph(std::uint32_t seed) {
  support::Random random(seed);
  Specs specs(1 + random.below(12));
  const auto count = static_cast<std::uint32_t>(specs.size());
  const std::uint32_t edges = random.below(count + 2);
  for (std::uint32_t i = 0; i < edges; ++i) {
    const std::uint32_t later = random.below(count);
    specs[later].after.push_back(random.below(count));
  }
  return specs;
}

TEST_CASE("topological_order: every task comes once, after all that it waits for") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_tasks(seed);
    const std::vector<TaskId> order = topological_order(graph_of(specs));
    REQUIRE(order.size() == specs.size());
    std::vector<std::size_t> position(specs.size(), specs.size());
    for (std::size_t i = 0; i < order.size(); ++i) position[index(order[i])] = i;
    bool in_order = true;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      in_order = in_order && position[i] < specs.size();
      for (const std::uint32_t earlier : specs[i].after)
        in_order = in_order && position[earlier] < position[i];
    }
    CHECK(in_order);
  }
}

TEST_CASE("find_cycle: finds one exactly where there is one, and each task waits for the one before") {
  int cyclic = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_digraph(seed);
    const TaskGraph graph = graph_of(specs);
    const std::vector<TaskId> cycle = find_cycle(graph);
    REQUIRE(cycle.empty() != support::oracle_has_cycle(specs));
    if (cycle.empty()) {
      CHECK_NOTHROW(topological_order(graph));
      continue;
    }
    ++cyclic;
    for (std::size_t i = 0; i < cycle.size(); ++i)
      CHECK(has_edge(graph, cycle[i], cycle[(i + 1) % cycle.size()]));
    std::vector<std::size_t> once = indices(cycle);
    std::sort(once.begin(), once.end());
    CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
    CHECK_THROWS_AS(topological_order(graph), CycleError);
  }
  CHECK(cyclic > 100);
  CHECK(cyclic < 400);
}

TEST_CASE("graph algorithms: a chain of 200,000 tasks does not exhaust the stack") {
  Specs specs(200'000, {.duration = 1});
  for (std::uint32_t i = 1; i < specs.size(); ++i) specs[i].after = {i - 1};
  const TaskGraph chain = graph_of(specs);
  CHECK(critical_path(chain, simulate(chain)).size() == 200'000);
  specs.front().after = {199'999};
  CHECK(find_cycle(graph_of(specs)).size() == 200'000);
}

TEST_CASE("critical_path: goes over dependencies and over waits for a stream") {
  //  stream 0:  0 (3) ---> 1 (1)                 0-3  3-4
  //  stream 1:  2 (2)  3 (4) after 2  4 (2) after 1      0-2  2-6  6-8: 4 waited for its stream, not for 1
  const TaskGraph graph = graph_of({{.duration = 3},
                                    {.duration = 1, .after = {0}},
                                    {.duration = 2, .stream = 1},
                                    {.duration = 4, .stream = 1, .after = {2}},
                                    {.duration = 2, .stream = 1, .after = {1}}});
  const Timeline timeline = simulate(graph);
  CHECK(support::shown(timeline) == "0-3 3-4 0-2 2-6 6-8 | 8");
  CHECK(indices(critical_path(graph, timeline)) == std::vector<std::size_t>{2, 3, 4});
}

TEST_CASE("critical_path: of nothing is empty") {
  CHECK(critical_path(TaskGraph{}, simulate(TaskGraph{})).empty());
}

TEST_CASE("critical_path: is back to back from 0 to the makespan, each task waiting for the one before") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const TaskGraph graph = graph_of(random_tasks(seed));
    const Timeline timeline = simulate(graph);
    support::check_critical_path(graph, timeline);
  }
}

}  // namespace
}  // namespace sim
