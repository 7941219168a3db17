// The queue of a sweep's remaining points and the sink of finished ones, shared by all threads of a process.

#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "planner/sweep/journal.hpp"

namespace sweep {

/// Hands out points in order. After a failure it hands out no more; every point before the failed one has
/// been handed out, so the reported failure does not depend on the number of threads.
class WorkQueue {
 public:
  /// Called for the points that a thread has finished, by one thread at a time.
  using Finish = std::function<void(std::vector<Finished>)>;

  WorkQueue(std::vector<std::size_t> points, Finish finish);

  /// Returns the next points, at most `max`; empty when none are left.
  std::vector<std::size_t> take(std::size_t max);
  std::size_t left() const;
  void finish(std::vector<Finished> finished);
  void fail(std::size_t point, std::exception_ptr error);
  /// Throws the error of the first failed point, if there is one.
  void rethrow() const;
  std::optional<std::size_t> failed_point() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> points_;
  std::size_t next_ = 0;
  Finish finish_;
  std::optional<std::pair<std::size_t, std::exception_ptr>> failure_;
};

/// Determines how many points to take at once so that they last about the given number of seconds, from the
/// time of the last points taken; fewer near the end, so that all threads finish together.
struct Portion {
  double seconds = 0;
  std::size_t sharers = 1;
  std::size_t next(std::size_t last_count, double last_seconds, std::size_t left) const;
};

/// Computes points of the queue on this number of threads, including the calling one, until the queue is
/// empty.
void compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads);

}  // namespace sweep
