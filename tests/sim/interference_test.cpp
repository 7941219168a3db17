// Streams that slow one another: exact small timelines, and random graphs against a fluid simulation.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/graph_algorithms.hpp"
#include "sim/simulate.hpp"
#include "tests/support/graphs.hpp"

namespace sim {
namespace {

using support::random_tasks;
using support::shown;
using support::Specs;
using support::TaskSpec;

constexpr std::uint32_t kSeeds = 300;

/// Tasks on `stream` take `factor` times as long while any of `by` is busy.
struct Rule {
  std::uint32_t stream = 0;
  std::vector<std::uint32_t> by;
  double factor = 1;
};

using Rules = std::vector<Rule>;

TaskGraph graph_of(const Specs& specs, const Rules& rules) {
  TaskGraphBuilder builder;
  std::uint32_t streams = 0;
  for (const TaskSpec& spec : specs) streams = std::max(streams, spec.stream + 1);
  for (const Rule& rule : rules) {
    streams = std::max(streams, rule.stream + 1);
    for (const std::uint32_t slower : rule.by) streams = std::max(streams, slower + 1);
  }
  for (std::uint32_t i = 0; i < streams; ++i) builder.add_stream("stream");
  for (const TaskSpec& spec : specs)
    builder.add_task(
        {.duration = Time(spec.duration), .stream = StreamId{spec.stream}, .priority = spec.priority});
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (const std::uint32_t earlier : specs[i].after)
      builder.add_dependency(TaskId{earlier}, support::id(i));
  for (const Rule& rule : rules) {
    std::vector<StreamId> by;
    for (const std::uint32_t slower : rule.by) by.push_back(StreamId{slower});
    builder.slow_down(StreamId{rule.stream}, std::move(by), rule.factor);
  }
  return std::move(builder).build();
}

std::string run(const Specs& specs, const Rules& rules) { return shown(simulate(graph_of(specs, rules))); }

TEST_CASE("interference: a task is slowed for as long as the other stream is busy") {
  //  compute, x 1.5 by the channel:  0 (10)    0-6 does 4 of its work, 6-12 the other 6
  //  channel:                        1 (6)     0-6
  CHECK(run({{.duration = 10}, {.duration = 6, .stream = 1}}, {{.stream = 0, .by = {1}, .factor = 1.5}}) ==
        "0-12 0-6 | 12");
}

TEST_CASE("interference: two streams slow each other") {
  //  compute, x 2 by the channel:     0 (20)   0-10 does 5, then the 15 left at full speed: 0-25
  //  channel, x 1.25 by compute:      1 (8)    0-10
  CHECK(run({{.duration = 20}, {.duration = 8, .stream = 1}},
            {{.stream = 0, .by = {1}, .factor = 2}, {.stream = 1, .by = {0}, .factor = 1.25}}) ==
        "0-25 0-10 | 25");
}

TEST_CASE("interference: the other stream starts and stops in the middle of a task") {
  //  compute, x 1.5 by the channel:  0 (20)             5 at full speed, 6 ps for 4, the 11 left: 0-22
  //  channel:                        1 (6) after 2      5-11
  //  clock:                          2 (5)              0-5
  CHECK(run({{.duration = 20}, {.duration = 6, .stream = 1, .after = {2}}, {.duration = 5, .stream = 2}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-22 5-11 0-5 | 22");
}

TEST_CASE("interference: tasks back to back keep a stream busy, a gap lets the other go") {
  //  compute, x 1.5 by the channel:  0 (20)             0-9: 6, 9-12: 3, 12-18: 4, the 7 left: 0-25
  //  channel:   1 (3) -> 2 (6)   4 (6) after 3          0-3 3-9 12-18
  //  clock:               3 (3) after 2                 9-12
  CHECK(run({{.duration = 20},
             {.duration = 3, .stream = 1},
             {.duration = 6, .stream = 1, .after = {1}},
             {.duration = 3, .stream = 2, .after = {2}},
             {.duration = 6, .stream = 1, .after = {3}}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-25 0-3 3-9 9-12 12-18 | 25");
}

TEST_CASE("interference: tasks back to back on the slowed stream go each at the rate of its time") {
  //  compute, x 1.5 by the channel:  0 (4) -> 1 (4) -> 2 (4)    0-6, 6-9: 2, the 2 left: 6-11, 11-15
  //  channel:                        3 (9)                      0-9
  CHECK(run({{.duration = 4}, {.duration = 4}, {.duration = 4}, {.duration = 9, .stream = 1}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-6 6-11 11-15 0-9 | 15");
}

TEST_CASE("interference: the factor applies once, however many streams are busy") {
  //  three compute streams, each x 1.5 by the channel:  0 (4)  1 (6)  2 (2)    0-6 0-9 0-3
  //  channel, x 3 by any of them:                       3 (10)                 0-9: 3, the 7 left: 0-16
  CHECK(run({{.duration = 4},
             {.duration = 6, .stream = 1},
             {.duration = 2, .stream = 2},
             {.duration = 10, .stream = 3}},
            {{.stream = 0, .by = {3}, .factor = 1.5},
             {.stream = 1, .by = {3}, .factor = 1.5},
             {.stream = 2, .by = {3}, .factor = 1.5},
             {.stream = 3, .by = {0, 1, 2}, .factor = 3}}) == "0-6 0-9 0-3 0-16 | 16");
}

TEST_CASE("interference: a stream named twice slows once") {
  CHECK(run({{.duration = 10}, {.duration = 6, .stream = 1}}, {{.stream = 0, .by = {1, 1}, .factor = 1.5}}) ==
        "0-12 0-6 | 12");
}

TEST_CASE("interference: where one stream takes over from another at an instant nothing changes") {
  //  compute, x 2 by any of the others:  0 (9)               0-14: 7, the 2 left: 0-16
  //  others:                             1 (6) -> 2 (8)      0-6 6-14, on two streams
  CHECK(run({{.duration = 9}, {.duration = 6, .stream = 1}, {.duration = 8, .stream = 2, .after = {1}}},
            {{.stream = 0, .by = {1, 2}, .factor = 2}}) == "0-16 0-6 6-14 | 16");
}

TEST_CASE("interference: three streams in a ring, each slowed by the next") {
  //  0, x 2 by 1:    0 (10)    0-9: 4.5, the 5.5 left: 0-15 (14.5 up)
  //  1, x 1.5 by 2:  1 (7)     0-6: 4, the 3 left: 0-9
  //  2, x 3 by 0:    2 (2)     0-6
  CHECK(run({{.duration = 10}, {.duration = 7, .stream = 1}, {.duration = 2, .stream = 2}},
            {{.stream = 0, .by = {1}, .factor = 2},
             {.stream = 1, .by = {2}, .factor = 1.5},
             {.stream = 2, .by = {0}, .factor = 3}}) == "0-15 0-9 0-6 | 15");
}

TEST_CASE("interference: tasks of no length slow nothing and take no time") {
  //  compute, x 1.5 by the channel:  0 (0) -> 1 (10)                     1 as if alone for 4, then 6 ps for 4
  //  channel:                        2 (0)   4 (0) after 3, -> 5 (6)     4-4 4-10
  //  clock:                          3 (4)
  CHECK(run({{.duration = 0},
             {.duration = 10, .after = {0}},
             {.duration = 0, .stream = 1},
             {.duration = 4, .stream = 2},
             {.duration = 0, .stream = 1, .after = {3}},
             {.duration = 6, .stream = 1, .after = {4}}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-0 0-12 0-0 0-4 4-4 4-10 | 12");
}

TEST_CASE("interference: tasks of no length between two others do not interrupt a slow-down") {
  //  compute, x 1.5 by the channel:  0 (3)                        4.5 up, as if 1 and 4 were one task
  //  channel:                        1 (2) -> 2 (0) -> 4 (5)      0-2 2-2 2-7
  //  elsewhere:                               3 (0) after 2, before 4
  CHECK(run({{.duration = 3},
             {.duration = 2, .stream = 1},
             {.duration = 0, .stream = 1, .after = {1}},
             {.duration = 0, .stream = 2, .after = {2}},
             {.duration = 5, .stream = 1, .after = {3}}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-5 0-2 2-2 2-2 2-7 | 7");
}

TEST_CASE("interference: an end is rounded once, halves up") {
  //  compute, x 1.5 by the channel: 3 takes 4.5, 5 takes 7.5, 2 takes 3; 1 (10) x 1.04 is 10.4
  const Rules rules = {{.stream = 0, .by = {1}, .factor = 1.5}};
  CHECK(run({{.duration = 3}, {.duration = 5}, {.duration = 2}, {.duration = 50, .stream = 1}}, rules) ==
        "0-5 5-13 13-16 0-50 | 50");
  CHECK(run({{.duration = 10}, {.duration = 50, .stream = 1}}, {{.stream = 0, .by = {1}, .factor = 1.04}}) ==
        "0-10 0-50 | 50");
}

TEST_CASE("interference: a task whose rate changes 1,200 times ends to the picosecond") {
  //  compute, x 1.5 by the channel:  0 (1000)               does 1 + 2/3 in 2 ps
  //  clock (1) -> channel (1) -> clock (1) -> channel (1) -> ..., 600 times
  Specs specs = {{.duration = 1000}};
  for (std::uint32_t i = 0; i < 600; ++i) {
    specs.push_back({.duration = 1, .stream = 2, .after = {2 * i}});
    specs.push_back({.duration = 1, .stream = 1, .after = {2 * i + 1}});
  }
  specs[1].after.clear();
  const Timeline timeline = simulate(graph_of(specs, {{.stream = 0, .by = {1}, .factor = 1.5}}));
  CHECK(timeline.spans.front().end == Time(1200));
  CHECK(timeline.makespan == Time(1200));
}

TEST_CASE("interference: an end that moves away and back ends its task once") {
  //  compute, x 2 by the channel:   0 (10), then 3 (5)   the blip takes 0's end from 10 to 11 (10.5 up) ...
  //  channel, x 1 by nobody:        2 (1) after 1        9-10
  //  clock:                         1 (9)
  CHECK(run({{.duration = 10},
             {.duration = 9, .stream = 2},
             {.duration = 1, .stream = 1, .after = {1}},
             {.duration = 5}},
            {{.stream = 0, .by = {1}, .factor = 2}}) == "0-11 0-9 9-10 11-16 | 16");
  //  x 1.25: from 20 to 22 (22.25) at 11, and back to 20 (20.2) at 12
  CHECK(run({{.duration = 20},
             {.duration = 11, .stream = 2},
             {.duration = 1, .stream = 1, .after = {1}},
             {.duration = 5}},
            {{.stream = 0, .by = {1}, .factor = 1.25}}) == "0-20 0-11 11-12 20-25 | 25");
}

TEST_CASE("interference: many streams slow one channel, the last of them to end lets it go") {
  //  1,000 compute streams: 1, 2, ... 1000 ps     channel, x 2 by any of them: 2000    0-1000: 1000 / 2 of it
  Specs specs = {{.duration = 2000}};
  Rule rule = {.stream = 0, .by = {}, .factor = 2};
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    specs.push_back({.duration = i, .stream = i});
    rule.by.push_back(i);
  }
  const Timeline timeline = simulate(graph_of(specs, {rule}));
  CHECK(timeline.spans[0] == Span{Time(0), Time(2500)});
  CHECK(timeline.spans[1000] == Span{Time(0), Time(1000)});
}

TEST_CASE("interference: a task with less than half a picosecond left ends at once") {
  //  compute, x 1.5 by the channel:  0 (7), 2 (3)     a third of 0 is left at 10: slowed it would end at 11
  //  channel:                        1 (10)           0-10
  CHECK(run({{.duration = 7}, {.duration = 10, .stream = 1}, {.duration = 3, .after = {0}}},
            {{.stream = 0, .by = {1}, .factor = 1.5}}) == "0-10 0-10 10-13 | 13");
}

TEST_CASE("interference: what is not slowed is exact however long it is, what is slowed to 16 digits") {
  const std::int64_t month = 30LL * 24 * 3600 * 1'000'000'000'000 + 1;
  const Rules rules = {{.stream = 0, .by = {1}, .factor = 1.5}};
  //  compute, x 1.5 by the channel:   0 (a month) after 1     at full speed
  //  channel:                         1 (2)
  CHECK(run({{.duration = month, .after = {1}}, {.duration = 2, .stream = 1}}, rules) ==
        fmt::format("2-{0} 0-2 | {0}", month + 2));
  //  compute:   0 (a month)     a third of it is left when the channel has ended
  //  channel:   1 (a month)
  const Timeline slowed = simulate(graph_of({{.duration = month}, {.duration = month, .stream = 1}}, rules));
  CHECK(slowed.spans[1].end == Time(month));
  CHECK(std::abs(slowed.makespan.count() - (month + month / 3)) < 1000);
}

TEST_CASE("interference: a cycle is refused here too") {
  CHECK_THROWS_AS(run({{.duration = 1, .after = {1}}, {.duration = 1, .stream = 1, .after = {0}}},
                      {{.stream = 0, .by = {1}, .factor = 2}}),
                  CycleError);
}

TEST_CASE("interference: the graph keeps its rules") {
  const TaskGraph graph = graph_of({{.duration = 1}}, {{.stream = 0, .by = {2, 1}, .factor = 1.5}});
  REQUIRE(graph.interferences().size() == 1);
  CHECK(graph.interferences()[0].stream == StreamId{0});
  CHECK(graph.interferences()[0].by == std::vector<StreamId>{StreamId{2}, StreamId{1}});
  CHECK(graph.interferences()[0].factor == 1.5);
}

// ---- properties

enum class Ends { exact, rounded };

/// A straightforward fluid simulation: at each instant, end and start tasks until nothing more happens; then
/// determine the busy streams and the speed of each task, and advance all tasks to the nearest end. With
/// Ends::rounded tasks end at whole picoseconds, with Ends::exact at any time.
class Fluid {
 public:
  struct Progress {
    enum { waiting, running, done } state = waiting;
    long double ready = -1;
    long double start = 0;
    long double end = 0;
    long double left = 0;
  };

  Fluid(const Specs& specs, const Rules& rules, Ends ends)
      : specs_(specs), rules_(rules), ends_(ends), tasks_(specs.size()) {
    for (std::size_t i = 0; i < specs.size(); ++i)
      tasks_[i].left = static_cast<long double>(specs[i].duration);
  }

  std::vector<Progress> run() {
    for (;;) {
      while (end_and_start()) {
      }
      long double next = std::numeric_limits<long double>::infinity();
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        if (tasks_[i].state != Progress::running) continue;
        tasks_[i].end = rounded(now_ + tasks_[i].left * factor_of(specs_[i].stream));
        next = std::min(next, tasks_[i].end);
      }
      if (std::isinf(next)) return tasks_;
      std::vector<long double> factors;  // all of them before any progress is made
      for (const TaskSpec& spec : specs_) factors.push_back(factor_of(spec.stream));
      for (std::size_t i = 0; i < tasks_.size(); ++i)
        if (tasks_[i].state == Progress::running) tasks_[i].left -= (next - now_) / factors[i];
      now_ = next;
    }
  }

 private:
  // Far below the effect of a picosecond with the factors used here, far above the rounding error of the
  // sums.
  static constexpr long double kNothing = 1e-7L;

  long double rounded(long double at) const {
    return ends_ == Ends::rounded ? std::floor(at + 0.5L + kNothing) : at;
  }

  bool busy(std::uint32_t stream) const {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (specs_[i].stream == stream && tasks_[i].state == Progress::running) return true;
    return false;
  }

  long double factor_of(std::uint32_t stream) const {
    for (const Rule& rule : rules_)
      if (rule.stream == stream &&
          std::any_of(rule.by.begin(), rule.by.end(), [&](std::uint32_t slower) { return busy(slower); }))
        return rule.factor;
    return 1;
  }

  bool end_and_start() {
    bool happened = false;
    for (Progress& task : tasks_)
      if (task.state == Progress::running && task.end <= now_ + kNothing) {
        task.state = Progress::done;
        happened = true;
      }
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (tasks_[i].ready < 0 && predecessors_done(i)) tasks_[i].ready = now_;
    for (std::uint32_t stream = 0; stream < 8; ++stream) happened = start_on(stream) || happened;
    return happened;
  }

  bool predecessors_done(std::size_t task) const {
    return std::all_of(specs_[task].after.begin(), specs_[task].after.end(),
                       [&](std::uint32_t earlier) { return tasks_[earlier].state == Progress::done; });
  }

  bool start_on(std::uint32_t stream) {
    if (busy(stream)) return false;
    std::size_t best = tasks_.size();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (specs_[i].stream != stream || tasks_[i].state != Progress::waiting || tasks_[i].ready < 0) continue;
      if (best == tasks_.size() || std::pair(specs_[i].priority, tasks_[i].ready) <
                                       std::pair(specs_[best].priority, tasks_[best].ready))
        best = i;
    }
    if (best == tasks_.size()) return false;
    tasks_[best].state = Progress::running;
    tasks_[best].start = now_;
    tasks_[best].end = specs_[best].duration == 0 ? now_ : std::numeric_limits<long double>::infinity();
    return true;
  }

  const Specs& specs_;
  const Rules& rules_;
  Ends ends_;
  std::vector<Progress> tasks_;
  long double now_ = 0;
};

/// Rules on up to 4 streams, most of them slowed by some of the others, often in cycles.
Rules random_rules(std::uint32_t seed, const std::vector<double>& factors) {
  support::Random random(seed + 77'000);
  Rules rules;
  for (std::uint32_t stream = 0; stream < 4; ++stream) {
    if (random.one_in(4)) continue;
    Rule rule = {.stream = stream,
                 .by = {},
                 .factor = factors[random.below(static_cast<std::uint32_t>(factors.size()))]};
    for (std::uint32_t other = 0; other < 4; ++other)
      if (other != stream && !random.one_in(3)) rule.by.push_back(other);
    rules.push_back(std::move(rule));
  }
  return rules;
}

const std::vector<double>& short_factors() {
  static const std::vector<double> factors = {1, 1.25, 1.5, 1.75, 2, 3};
  return factors;
}

/// Half of the seeds use tasks of up to 9 ps, where every rounding is visible; the others use long ones.
Specs random_work(std::uint32_t seed) {
  support::Random random(seed + 99'000);
  Specs specs = random_tasks(seed);
  if (seed % 2 == 1)
    for (TaskSpec& spec : specs) spec.duration *= random.between(1, 200'000);
  return specs;
}

TEST_CASE("interference: on random graphs the timeline is that of a fluid simulation, to the picosecond") {
  int slowed = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_work(seed);
    const Rules rules = random_rules(seed, short_factors());
    const Timeline timeline = simulate(graph_of(specs, rules));
    const auto expected = Fluid(specs, rules, Ends::rounded).run();
    Timeline wanted = {.spans = std::vector<Span>(specs.size()), .makespan = {}};
    for (std::size_t i = 0; i < specs.size(); ++i) {
      wanted.spans[i] = {Time(std::llround(expected[i].start)), Time(std::llround(expected[i].end))};
      wanted.makespan = std::max(wanted.makespan, wanted.spans[i].end);
    }
    CHECK(shown(timeline) == shown(wanted));
    slowed += timeline != simulate(support::graph_of(specs)) ? 1 : 0;
  }
  CHECK(slowed > 150);
}

TEST_CASE("interference: rounding ends costs at most a picosecond a task") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    // A fixed order; otherwise half a picosecond could decide which of two tasks goes first.
    const Specs specs = support::with_fixed_order(random_work(seed));
    const Rules rules = random_rules(seed, {1, 1.03, 1.1, 1.37, 1.5, 1.9});
    const Timeline timeline = simulate(graph_of(specs, rules));
    const auto expected = Fluid(specs, rules, Ends::exact).run();
    long double worst = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Span& span = timeline.spans[i];
      worst = std::max(worst, std::abs(static_cast<long double>(span.start.count()) - expected[i].start));
      worst = std::max(worst, std::abs(static_cast<long double>(span.end.count()) - expected[i].end));
    }
    CHECK(worst <= static_cast<long double>(specs.size()));
  }
}

TEST_CASE("interference: factors of 1 give the timeline without rules") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_work(seed);
    Rules rules = random_rules(seed, {1});
    const Timeline without = simulate(support::graph_of(specs));
    CHECK(shown(simulate(graph_of(specs, rules))) == shown(without));
    // A rule that slows only an idle stream changes nothing.
    rules.push_back({.stream = 4, .by = {0, 1, 2, 3}, .factor = 2});
    CHECK(shown(simulate(graph_of(specs, rules))) == shown(without));
  }
}

TEST_CASE("interference: where the order is fixed nothing starts or ends earlier than without") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = support::with_fixed_order(random_work(seed));
    const Timeline with = simulate(graph_of(specs, random_rules(seed, short_factors())));
    const Timeline without = simulate(support::graph_of(specs));
    bool no_earlier = true;
    for (std::size_t i = 0; i < specs.size(); ++i)
      no_earlier = no_earlier && with.spans[i].start >= without.spans[i].start &&
                   with.spans[i].end >= without.spans[i].end;
    CHECK(no_earlier);
  }
}

TEST_CASE("interference: every task runs after its predecessors, alone, for its work to factor times it") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Specs specs = random_work(seed);
    const Rules rules = random_rules(seed, short_factors());
    const TaskGraph graph = graph_of(specs, rules);
    const Timeline timeline = simulate(graph);
    std::vector<double> factors(4, 1);
    for (const Rule& rule : rules) factors[rule.stream] = rule.factor;
    bool after_predecessors = true;
    bool alone = true;
    bool long_enough = true;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Span& span = timeline.spans[i];
      const Time length = span.end - span.start;
      long_enough = long_enough && length >= Time(specs[i].duration) &&
                    static_cast<double>(length.count()) <=
                        static_cast<double>(specs[i].duration) * factors[specs[i].stream] + 0.5;
      for (const std::uint32_t earlier : specs[i].after)
        after_predecessors = after_predecessors && timeline.spans[earlier].end <= span.start;
      for (std::size_t j = 0; j < i; ++j)
        alone = alone && (specs[i].stream != specs[j].stream || span.end <= timeline.spans[j].start ||
                          timeline.spans[j].end <= span.start);
    }
    CHECK(after_predecessors);
    CHECK(alone);
    CHECK(long_enough);
    CHECK(simulate(graph) == timeline);  // deterministic
  }
}

TEST_CASE("interference: the critical path is still back to back from 0 to the makespan") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const TaskGraph graph = graph_of(random_work(seed), random_rules(seed, short_factors()));
    const Timeline timeline = simulate(graph);
    support::check_critical_path(graph, timeline);
  }
}

}  // namespace
}  // namespace sim
