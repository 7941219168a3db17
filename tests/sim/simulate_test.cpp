// The simulator: exact small timelines, its rules on random graphs, and two oracles.

#include "sim/simulate.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/graph_algorithms.hpp"
#include "tests/support/graphs.hpp"

namespace sim {
namespace {

using support::graph_of;
using support::random_tasks;
using support::shown;
using support::Specs;
using support::TaskSpec;

constexpr std::uint32_t kSeeds = 500;

std::string run(const Specs& specs) { return shown(simulate(graph_of(specs))); }

TEST_CASE("simulate: nothing to run ends at once") {
  CHECK(run({}) == "| 0");
  CHECK(simulate(TaskGraph{}).makespan == Time::zero());
}

TEST_CASE("simulate: two streams run side by side, each one task at a time") {
  //  stream 0:  0 (3) --> 1 (2)
  //               \         \.
  //  stream 1:     2 (4)     3 (1)
  CHECK(run({{.duration = 3},
             {.duration = 2, .after = {0}},
             {.duration = 4, .stream = 1, .after = {0}},
             {.duration = 1, .stream = 1, .after = {1}}}) == "0-3 3-5 3-7 7-8 | 8");
}

TEST_CASE("simulate: a backward pass and its collectives over two iterations") {
  //  compute:  F (2) -> B2 (3) -> B1 (4)              F' (2) -> B2' (3) -> B1' (4)
  //                       \         \                 ^           \          \.
  //  channel:              A2 (6)    A1 (1) ---------/             A2' (6)    A1' (1)
  CHECK(run({{.duration = 2},
             {.duration = 3, .after = {0}},
             {.duration = 4, .after = {1}},
             {.duration = 6, .stream = 1, .after = {1}},
             {.duration = 1, .stream = 1, .after = {2}},
             {.duration = 2, .after = {2, 4}},
             {.duration = 3, .after = {5}},
             {.duration = 4, .after = {6}},
             {.duration = 6, .stream = 1, .after = {6}},
             {.duration = 1, .stream = 1, .after = {7}}}) ==
        "0-2 2-5 5-9 5-11 11-12 12-14 14-17 17-21 17-23 23-24 | 24");
}

TEST_CASE(
    "simulate: of the tasks ready for a stream the lowest priority value goes first, negative ones too") {
  //  one stream: 0 (5, first), then 1, 2 and 3 by priority 2, 1 and -1
  CHECK(run({{.duration = 5, .priority = -2},
             {.duration = 1, .priority = 2},
             {.duration = 1, .priority = 1},
             {.duration = 1, .priority = -1}}) == "0-5 7-8 6-7 5-6 | 8");
}

TEST_CASE("simulate: a running task is not interrupted by one that goes first") {
  //  stream 0: 0 (10, last of all)   2 (1, first of all)
  //                                 /
  //  stream 1: 1 (4) --------------
  CHECK(run({{.duration = 10, .priority = 9},
             {.duration = 4, .stream = 1},
             {.duration = 1, .after = {1}, .priority = -9}}) == "0-10 0-4 10-11 | 11");
}

TEST_CASE("simulate: at equal priority the task that was ready first goes first, whatever its id") {
  //  stream 0: 0 (10)   1 (1) after 3   2 (1) after 4
  //  stream 1: 4 (2), 3 (2) in that order
  CHECK(run({{.duration = 10},
             {.duration = 1, .after = {3}},
             {.duration = 1, .after = {4}},
             {.duration = 2, .stream = 1, .priority = 1},
             {.duration = 2, .stream = 1}}) == "0-10 11-12 10-11 2-4 0-2 | 12");
}

TEST_CASE("simulate: at equal priority and ready time the lower id goes first") {
  //  0 (3) --> 3 (1), 2 (1), 1 (1), and the edges come in that order
  TaskGraphBuilder builder;
  const StreamId stream = builder.add_stream("s");
  const StreamId other = builder.add_stream("t");
  builder.add_task({.duration = Time(3), .stream = other});
  for (int i = 0; i < 3; ++i) builder.add_task({.duration = Time(1), .stream = stream});
  for (const std::uint32_t later : {3U, 2U, 1U}) builder.add_dependency(TaskId{0}, TaskId{later});
  CHECK(shown(simulate(std::move(builder).build())) == "0-3 3-4 4-5 5-6 | 6");
}

TEST_CASE("simulate: all endings at an instant are handled before anything starts") {
  //  stream 0:  0 (4)           3 (1, before 2)
  //                            /
  //  stream 1:  1 (4) --------     2 on stream 0 is ready from the start
  CHECK(run({{.duration = 4, .priority = -1},
             {.duration = 4, .stream = 1},
             {.duration = 1, .priority = 1},
             {.duration = 1, .after = {1}}}) == "0-4 0-4 5-6 4-5 | 6");
}

TEST_CASE("simulate: tasks of no length run one after another at one instant") {
  //  stream 0:  0 (0) -> 1 (0) -> 3 (2)        2 (0) on stream 1 after 1, then 4 (0) after 2
  CHECK(run({{.duration = 0},
             {.duration = 0, .after = {0}},
             {.duration = 0, .stream = 1, .after = {1}},
             {.duration = 2, .after = {1}},
             {.duration = 0, .after = {2}}}) == "0-0 0-0 0-0 0-2 2-2 | 2");
  // Alone, they end where they begin.
  CHECK(run({{.duration = 0}, {.duration = 0}}) == "0-0 0-0 | 0");
}

TEST_CASE("simulate: two edges between the same tasks wait for one end") {
  CHECK(run({{.duration = 3}, {.duration = 2, .after = {0, 0}}}) == "0-3 3-5 | 5");
}

TEST_CASE("simulate: long times do not overflow") {
  const std::int64_t month = 30LL * 24 * 3600 * 1'000'000'000'000;
  const Timeline timeline =
      simulate(graph_of({{.duration = month}, {.duration = month}, {.duration = month, .after = {1}}}));
  CHECK(timeline.makespan == Time(3 * month));
}

TEST_CASE("simulate: a cycle is refused and named") {
  struct Case {
    Specs specs;
    std::string message;
  };
  const std::vector<Case> cases = {{{{.duration = 1, .after = {0}}}, "tasks wait for one another: 0 -> 0"},
                                   {{{.duration = 1, .after = {1}}, {.duration = 0, .after = {0}}},
                                    "tasks wait for one another: 0 -> 1 -> 0"},
                                   // 0 -> 1 -> 2 -> 3 -> 1, and 4 behind it
                                   {{{.duration = 1},
                                     {.duration = 1, .after = {0, 3}},
                                     {.duration = 1, .stream = 1, .after = {1}},
                                     {.duration = 1, .after = {2}},
                                     {.duration = 1, .after = {3}}},
                                    "tasks wait for one another: 1 -> 2 -> 3 -> 1"}};
  for (const Case& each : cases) {
    CAPTURE(each.message);
    CHECK_THROWS_WITH_AS(simulate(graph_of(each.specs)), each.message.c_str(), CycleError);
  }
}

TEST_CASE("simulate: the cycle's tasks come with the error") {
  try {
    simulate(graph_of({{.duration = 1}, {.duration = 1, .after = {2}}, {.duration = 1, .after = {1}}}));
    FAIL("a cycle was simulated");
  } catch (const CycleError& error) {
    CHECK(error.cycle() == std::vector<TaskId>{TaskId{1}, TaskId{2}});
  }
}

// ---- properties

Time ready_at(const Specs& specs, std::size_t task, const Timeline& timeline) {
  Time ready{};
  for (const std::uint32_t earlier : specs[task].after) ready = std::max(ready, timeline.spans[earlier].end);
  return ready;
}

bool overlap(const Span& a, const Span& b) { return a.start < b.end && b.start < a.end; }

/// Returns how long the stream of a task was busy with other tasks between `from` and `to`.
Time busy_between(const Specs& specs, std::uint32_t stream, const Timeline& timeline, Time from, Time to) {
  Time busy{};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].stream != stream) continue;
    const Time begin = std::max(from, timeline.spans[i].start);
    const Time end = std::min(to, timeline.spans[i].end);
    if (begin < end) busy += end - begin;
  }
  return busy;
}

TEST_CASE("simulate: on random graphs every task runs whole, after its predecessors, alone on its stream") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_tasks(seed);
    const Timeline timeline = simulate(graph_of(specs));
    REQUIRE(timeline.spans.size() == specs.size());
    bool whole = true;
    bool after_predecessors = true;
    bool alone = true;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Span& span = timeline.spans[i];
      whole = whole && span.end - span.start == Time(specs[i].duration);
      after_predecessors = after_predecessors && span.start >= ready_at(specs, i, timeline);
      for (std::size_t j = 0; j < i; ++j)
        alone = alone && (specs[i].stream != specs[j].stream || !overlap(span, timeline.spans[j]));
    }
    CHECK(whole);
    CHECK(after_predecessors);
    CHECK(alone);
  }
}

TEST_CASE("simulate: on random graphs a stream never idles while one of its tasks is ready") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_tasks(seed);
    const Timeline timeline = simulate(graph_of(specs));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      CAPTURE(i);
      const Time ready = ready_at(specs, i, timeline);
      const Time start = timeline.spans[i].start;
      REQUIRE(busy_between(specs, specs[i].stream, timeline, ready, start) == start - ready);
    }
  }
}

TEST_CASE("simulate: on random graphs the makespan lies between the longest path and the total work") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_tasks(seed);
    const TaskGraph graph = graph_of(specs);
    const Timeline timeline = simulate(graph);
    Time total{};
    Time last_end{};
    for (std::size_t i = 0; i < specs.size(); ++i) {
      total += Time(specs[i].duration);
      last_end = std::max(last_end, timeline.spans[i].end);
    }
    CHECK(timeline.makespan == last_end);
    CHECK(timeline.makespan.count() >= support::oracle_longest_path(specs));
    CHECK(timeline.makespan <= total);
    CHECK(simulate(graph) == timeline);  // deterministic
  }
}

/// A direct implementation of the documented rules: at each instant, end tasks; then every free stream takes
/// the best of its ready tasks; repeat until nothing happens at this instant; then go to the next end.
Timeline naive(const Specs& specs) {
  enum class State { waiting, running, done };
  std::vector<State> state(specs.size(), State::waiting);
  std::vector<std::optional<Time>> ready(specs.size());
  Timeline timeline = {.spans = std::vector<Span>(specs.size())};
  Time now{};
  for (;;) {
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (state[i] == State::running && timeline.spans[i].end == now) state[i] = State::done;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (!ready[i] && std::all_of(specs[i].after.begin(), specs[i].after.end(),
                                   [&](std::uint32_t earlier) { return state[earlier] == State::done; }))
        ready[i] = now;
    bool started = false;
    for (std::uint32_t stream = 0; stream < 4; ++stream) {
      std::optional<std::size_t> best;
      bool busy = false;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].stream != stream) continue;
        busy = busy || state[i] == State::running;
        if (!ready[i] || state[i] != State::waiting) continue;
        if (!best ||
            std::pair(specs[i].priority, *ready[i]) < std::pair(specs[*best].priority, *ready[*best]))
          best = i;
      }
      if (busy || !best) continue;
      state[*best] = State::running;
      timeline.spans[*best] = {now, now + Time(specs[*best].duration)};
      started = true;
    }
    Time next = Time::max();
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (state[i] == State::running) next = std::min(next, timeline.spans[i].end);
    if (next == Time::max() && !started) break;
    now = next;
  }
  timeline.makespan = now;
  return timeline;
}

TEST_CASE("simulate: on random graphs the timeline is that of a naive simulator") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_tasks(seed);
    CHECK(shown(simulate(graph_of(specs))) == shown(naive(specs)));
  }
}

TEST_CASE("simulate: where edges fix the order on each stream the makespan is the longest path") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = support::with_fixed_order(random_tasks(seed));
    CHECK(simulate(graph_of(specs)).makespan.count() == support::oracle_longest_path(specs));
  }
}

}  // namespace
}  // namespace sim
