// Work queues: every point is computed once, for any number of threads; of several failures, the first
// point's is reported.

#include "planner/sweep/work_queue.hpp"

#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

namespace sweep {
namespace {

TEST_CASE("work queue: eight threads get every point once, and what they finish comes one at a time") {
  std::vector<std::size_t> points(5000);
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = 2 * i;
  std::vector<int> times(10000);
  int inside = 0;
  bool alone = true;
  WorkQueue work_queue(points, [&](const std::vector<Finished>& finished) {
    alone = alone && ++inside == 1;
    for (const Finished& each : finished) ++times[each.point];
    --inside;
  });
  {
    std::vector<std::jthread> threads;
    for (std::size_t max = 1; max <= 8; ++max)
      threads.emplace_back([&work_queue, max] {
        for (;;) {
          const std::vector<std::size_t> taken = work_queue.take(max);
          if (taken.empty()) return;
          std::vector<Finished> finished;
          for (const std::size_t point : taken) finished.push_back({.point = point, .record = {}});
          work_queue.finish(std::move(finished));
        }
      });
  }
  CHECK(alone);
  CHECK(work_queue.left() == 0);
  for (std::size_t i = 0; i < times.size(); ++i) CHECK(times[i] == (i % 2 == 0 ? 1 : 0));
}

TEST_CASE("work queue: after a failure nothing is handed out, and the first point's is thrown") {
  WorkQueue work_queue({4, 5, 6, 7}, [](const std::vector<Finished>& /*finished*/) {});
  CHECK(work_queue.take(3) == std::vector<std::size_t>{4, 5, 6});
  work_queue.rethrow();
  work_queue.fail(6, std::make_exception_ptr(std::runtime_error("six")));
  work_queue.fail(5, std::make_exception_ptr(std::runtime_error("five")));
  work_queue.fail(6, std::make_exception_ptr(std::runtime_error("six")));
  CHECK(work_queue.take(1).empty());
  CHECK(work_queue.failed_point() == 5);
  CHECK_THROWS_WITH(work_queue.rethrow(), "five");
}

TEST_CASE("work queue: as many points are taken as will last, fewer near the end, and never none") {
  const Portion portion = {.seconds = 0.02, .sharers = 4};
  CHECK(portion.next(10, 0.02, 1000) == 10);
  CHECK(portion.next(10, 0.005, 1000) == 40);
  CHECK(portion.next(10, 0.005, 80) == 10);
  CHECK(portion.next(1, 60, 1000) == 1);
  CHECK(portion.next(10, 0.02, 0) == 1);
  CHECK(portion.next(0, 0, 1000) == 1);
  CHECK(portion.next(1, 0, 1000) == 1);
  CHECK(portion.next(1000, 1e-9, 1'000'000) == 4096);
}

}  // namespace
}  // namespace sweep
