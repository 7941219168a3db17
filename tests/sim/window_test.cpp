// Streams whose queue can be overtaken only as long as tasks are not committed.

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "sim/simulate.hpp"
#include "tests/support/random.hpp"

namespace sim {
namespace {

using support::Random;

/// Tasks of 10 ps on stream 1, each ready when the task of the same index on stream 0, with the given
/// duration, has ended; with the given sizes and priorities.
struct Queue {
  std::vector<Time> arrivals_after;
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> priorities;
};

/// Starts of the tasks on the stream with the window.
std::vector<std::int64_t> starts(const Queue& queue, std::int64_t credit) {
  TaskGraphBuilder builder;
  const StreamId producer = builder.add_stream("producer");
  const StreamId limited = builder.add_stream("limited");
  if (credit > 0) builder.limit(limited, credit);
  std::vector<TaskId> tasks;
  for (std::size_t i = 0; i < queue.sizes.size(); ++i) {
    const TaskId before = builder.add_task({.duration = queue.arrivals_after[i], .stream = producer});
    tasks.push_back(
        builder.add_task({.duration = Time(10), .stream = limited, .priority = queue.priorities[i]}));
    builder.set_size(tasks.back(), queue.sizes[i]);
    builder.add_dependency(before, tasks.back());
  }
  const Timeline timeline = simulate(std::move(builder).build());
  std::vector<std::int64_t> out;
  for (const TaskId task : tasks) out.push_back(timeline.spans[index(task)].start.count());
  return out;
}

// Ready at 1, 2, 3 and 4, each more urgent than the previous one, one byte each.
const Queue rising = {{Time(1), Time(1), Time(1), Time(1)}, {1, 1, 1, 1}, {4, 3, 2, 1}};

TEST_CASE("sim: what is committed runs first come, first served, what is not is overtaken") {
  CHECK(starts(rising, 1) == std::vector<std::int64_t>{1, 31, 21, 11});  // stop and wait: priorities alone
  CHECK(starts(rising, 0) == starts(rising, 1));
  // two in flight: the second joins the first at 2; when the first ends the most urgent one joins
  CHECK(starts(rising, 2) == std::vector<std::int64_t>{1, 11, 31, 21});
  CHECK(starts(rising, 3) == std::vector<std::int64_t>{1, 11, 21, 31});
  CHECK(starts(rising, 100) == std::vector<std::int64_t>{1, 11, 21, 31});
}

TEST_CASE("sim: a task larger than the credit goes alone") {
  CHECK(starts({{Time(1), Time(1), Time(1)}, {9, 1, 1}, {3, 2, 1}}, 2) ==
        std::vector<std::int64_t>{1, 21, 11});
}

TEST_CASE("sim: a task that does not fit holds up those after it, though they would fit") {
  // 2 of 3 bytes are in flight; the more urgent task of 2 does not fit, the other of 1 would
  CHECK(starts({{Time(1), Time(1), Time(0)}, {2, 2, 1}, {1, 1, 2}}, 3) ==
        std::vector<std::int64_t>{1, 11, 21});
  // a more urgent task then comes before both
  CHECK(starts({{Time(1), Time(1), Time(0), Time(3)}, {2, 2, 1, 2}, {1, 1, 2, 0}}, 3) ==
        std::vector<std::int64_t>{1, 21, 31, 11});
}

TEST_CASE("sim: what ends leaves its credit to what becomes ready at the same instant") {
  // at 11 the first ends and the third becomes ready: more urgent than the second, which did not fit
  CHECK(starts({{Time(1), Time(1), Time(9)}, {1, 1, 1}, {5, 5, 0}}, 1) ==
        std::vector<std::int64_t>{1, 21, 11});
}

TEST_CASE(
    "sim: what becomes ready at one instant is compared, though some of it does so after tasks of no "
    "length") {
  CHECK(starts({{Time(1), Time(0), Time(0)}, {1, 1, 1}, {3, 2, 1}}, 1) ==
        std::vector<std::int64_t>{21, 11, 1});
  CHECK(starts({{Time(1), Time(0), Time(0)}, {1, 1, 1}, {3, 2, 1}}, 9) ==
        std::vector<std::int64_t>{21, 11, 1});
}

/// The same rules, implemented instant by instant.
std::vector<std::int64_t> slowly(const Queue& queue, std::int64_t credit) {
  const std::size_t count = queue.sizes.size();
  std::vector<std::int64_t> out(count, -1);
  std::vector<std::int64_t> ready(count);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) ready[i] = at += queue.arrivals_after[i].count();
  std::vector<std::size_t> waiting;
  std::vector<std::size_t> committed;  // the first of them runs
  std::int64_t busy_until = -1;
  for (std::int64_t now = 0; now <= at + 10 * static_cast<std::int64_t>(count); ++now) {
    if (busy_until == now) committed.erase(committed.begin());
    for (std::size_t i = 0; i < count; ++i)
      if (ready[i] == now) waiting.push_back(i);
    std::stable_sort(waiting.begin(), waiting.end(),
                     [&](std::size_t a, std::size_t b) { return queue.priorities[a] < queue.priorities[b]; });
    while (!waiting.empty()) {
      std::int64_t in_flight = queue.sizes[waiting.front()];
      for (const std::size_t other : committed) in_flight += queue.sizes[other];
      if (!committed.empty() && in_flight > credit) break;
      committed.push_back(waiting.front());
      waiting.erase(waiting.begin());
    }
    if (busy_until <= now && !committed.empty()) {
      out[committed.front()] = now;
      busy_until = now + 10;
    }
  }
  return out;
}

TEST_CASE("sim: windows do as a simulation does that looks at every instant") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Queue queue;
    for (std::uint32_t count = 1 + random.below(9); count-- > 0;) {
      queue.arrivals_after.emplace_back(random.below(8));
      queue.sizes.push_back(random.below(5));
      queue.priorities.push_back(static_cast<std::int32_t>(random.below(4)));
    }
    const std::int64_t credit = random.between(1, 9);
    CHECK(starts(queue, credit) == slowly(queue, credit));
  }
}

}  // namespace
}  // namespace sim
