// What is left to do of a sweep and where what is done goes, shared by all threads of a process.

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

/// Hands out points in their order. After a failure it hands out none, and every point before the one that
/// failed has been handed out: the failure that is told is the same however many threads there are.
class WorkQueue {
 public:
  /// Called for one finished point at a time.
  using Finish = std::function<void(Finished)>;

  WorkQueue(std::vector<std::size_t> points, Finish finish);

  /// The next points, `most` at most; none when none are left.
  std::vector<std::size_t> take(std::size_t max);
  std::size_t left() const;
  void finish(Finished finished);
  void fail(std::size_t point, std::exception_ptr error);
  /// Throws the failure of the first point that failed, if any did.
  void rethrow() const;
  std::optional<std::size_t> failed_point() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> points_;
  std::size_t next_ = 0;
  Finish finish_;
  std::optional<std::pair<std::size_t, std::exception_ptr>> failure_;
};

/// How many points to take at once for them to last so many seconds, to judge by the last that were taken;
/// fewer near the end, for all who share what is left to end together.
struct Portion {
  double seconds = 0;
  std::size_t sharers = 1;
  std::size_t next(std::size_t last_count, double last_seconds, std::size_t left) const;
};

/// Computes what the board hands out on so many threads, this one among them, until it hands out no more.
void compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads);

}  // namespace sweep
