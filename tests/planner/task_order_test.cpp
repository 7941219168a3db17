// The order in which tasks are simulated on many workers.

#include "planner/graph/task_order.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace planner {
namespace {

using sim::StreamId;
using sim::TaskId;

/// Tasks by their streams, with their dependencies.
Lowered graph_of(const std::vector<StreamId>& streams,
                 const std::vector<std::pair<std::uint32_t, std::uint32_t>>& dependencies) {
  sim::TaskGraphBuilder builder;
  for (const char* name : {"compute", "channel", "ticks", "input"}) builder.add_stream(name);
  for (const StreamId stream : streams) builder.add_task({.duration = sim::Time(1), .stream = stream});
  for (const auto& [earlier, later] : dependencies) builder.add_dependency(TaskId{earlier}, TaskId{later});
  Lowered out;
  out.graph = std::move(builder).build();
  return out;
}

std::vector<std::uint32_t> order_of(const Lowered& lowered) {
  std::vector<std::uint32_t> out;
  for (const TaskId task : order_with_few_times(lowered)) out.push_back(static_cast<std::uint32_t>(task));
  return out;
}

TEST_CASE(
    "task order: a collective follows the task that it waits for, and precedes the one that waits for it") {
  const StreamId own = Lowered::kCompute;
  const StreamId shared = Lowered::kChannel;
  // backward 0, 1, 2, then an all-reduce of each: 3, 4, 5
  CHECK(order_of(graph_of({own, own, own, shared, shared, shared}, {{0, 3}, {1, 4}, {2, 5}})) ==
        std::vector<std::uint32_t>{0, 3, 1, 4, 2, 5});
  // after backward 0 all-gathers 1, 2, 3, each before the forward pass of a layer: 4, 5, 6
  CHECK(order_of(graph_of({own, shared, shared, shared, own, own, own}, {{0, 1}, {1, 4}, {2, 5}, {3, 6}})) ==
        std::vector<std::uint32_t>{0, 1, 4, 2, 5, 3, 6});
  // an all-gather, 2, that could wait, but an all-reduce behind it, 3, cannot
  CHECK(order_of(graph_of({own, own, shared, shared, own}, {{0, 2}, {1, 3}, {2, 4}})) ==
        std::vector<std::uint32_t>{0, 2, 1, 3, 4});
}

TEST_CASE("task order: every task after all before it, and each kind in the order of the graph") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    std::vector<StreamId> streams(1 + random.below(30));
    for (StreamId& stream : streams)
      stream = random.one_in(2) ? Lowered::kCompute : random.one_in(3) ? Lowered::kTicks : Lowered::kChannel;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> dependencies;
    for (std::uint32_t later = 1; later < streams.size(); ++later)
      for (std::uint32_t n = random.below(3); n-- > 0;) dependencies.emplace_back(random.below(later), later);
    const Lowered lowered = graph_of(streams, dependencies);
    const std::vector<std::uint32_t> order = order_of(lowered);
    std::vector<std::size_t> place(streams.size(), streams.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    REQUIRE(order.size() == streams.size());
    CHECK(std::ranges::find(place, streams.size()) == place.end());
    for (const auto& dependency : dependencies) CHECK(place[dependency.first] < place[dependency.second]);
    for (const bool shared : {false, true}) {
      std::vector<std::uint32_t> alike;
      for (const std::uint32_t task : order)
        if (lowered.is_shared(streams[task]) == shared) alike.push_back(task);
      CHECK(std::ranges::is_sorted(alike));
    }
  }
}

}  // namespace
}  // namespace planner
