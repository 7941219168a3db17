#include "planner/sweep/work_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace sweep {
namespace {

using Clock = std::chrono::steady_clock;

/// Takes neighbouring points together, which is fastest as they share most inputs.
void compute_alone(const Sweep& sweep, Rows rows, WorkQueue& work_queue, const Portion& portion) {
  Computer computer(sweep, rows);
  std::size_t max = 1;
  for (;;) {
    const std::vector<std::size_t> taken = work_queue.take(max);
    if (taken.empty()) return;
    const Clock::time_point begun = Clock::now();
    std::vector<Finished> finished;
    finished.reserve(taken.size());
    std::size_t point = taken.front();
    try {
      for (const std::size_t next : taken) {
        point = next;
        finished.push_back({.point = point, .record = computer.compute(point)});
      }
    } catch (...) {
      work_queue.fail(point, std::current_exception());
    }
    try {
      work_queue.finish(std::move(finished));
    } catch (...) {
      work_queue.fail(taken.front(), std::current_exception());
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    max = portion.next(taken.size(), seconds, work_queue.left());
  }
}

}  // namespace

WorkQueue::WorkQueue(std::vector<std::size_t> points, Finish finish)
    : points_(std::move(points)), finish_(std::move(finish)) {}

std::vector<std::size_t> WorkQueue::take(std::size_t max) {
  const std::lock_guard lock(mutex_);
  if (failure_) return {};
  const std::size_t count = std::min(max, points_.size() - next_);
  const auto first = points_.begin() + static_cast<std::ptrdiff_t>(next_);
  next_ += count;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::size_t WorkQueue::left() const {
  const std::lock_guard lock(mutex_);
  return points_.size() - next_;
}

void WorkQueue::finish(std::vector<Finished> finished) {
  const std::lock_guard lock(mutex_);
  finish_(std::move(finished));
}

void WorkQueue::fail(std::size_t point, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!failure_ || point < failure_->first) failure_.emplace(point, std::move(error));
}

void WorkQueue::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_->second);
}

std::optional<std::size_t> WorkQueue::failed_point() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? std::optional(failure_->first) : std::nullopt;
}

std::size_t Portion::next(std::size_t last_count, double last_seconds, std::size_t left) const {
  constexpr double kMax = 4096;
  const double wanted = last_seconds > 0 ? static_cast<double>(last_count) * seconds / last_seconds : 1;
  const double share = static_cast<double>(left) / (2.0 * static_cast<double>(sharers));
  return static_cast<std::size_t>(std::clamp(std::ceil(std::min(wanted, share)), 1.0, kMax));
}

void compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads) {
  const Portion portion = {.seconds = 0.005, .sharers = static_cast<std::size_t>(threads)};
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&] { compute_alone(sweep, rows, work_queue, portion); });
  compute_alone(sweep, rows, work_queue, portion);
}

}  // namespace sweep
