#include "sweep/board.hpp"

#include <algorithm>
#include <thread>

namespace sweep {
namespace {

void compute_alone(const Sweep& sweep, Rows rows, Board& board) {
  Computer computer(sweep, rows);
  for (;;) {
    const std::vector<std::size_t> taken = board.take(1);
    if (taken.empty()) return;
    try {
      board.finish({.point = taken.front(), .record = computer.compute(taken.front())});
    } catch (...) {
      board.fail(taken.front(), std::current_exception());
    }
  }
}

}  // namespace

Board::Board(std::vector<std::size_t> points, Finish finish)
    : points_(std::move(points)), finish_(std::move(finish)) {}

std::vector<std::size_t> Board::take(std::size_t most) {
  const std::lock_guard lock(mutex_);
  if (failure_) return {};
  const std::size_t count = std::min(most, points_.size() - next_);
  const auto first = points_.begin() + static_cast<std::ptrdiff_t>(next_);
  next_ += count;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::size_t Board::left() const {
  const std::lock_guard lock(mutex_);
  return points_.size() - next_;
}

void Board::finish(Finished finished) {
  const std::lock_guard lock(mutex_);
  finish_(std::move(finished));
}

void Board::fail(std::size_t point, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!failure_ || point < failure_->first) failure_.emplace(point, std::move(error));
}

void Board::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_->second);
}

std::optional<std::size_t> Board::failed_point() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? std::optional(failure_->first) : std::nullopt;
}

void compute(const Sweep& sweep, Rows rows, Board& board, int threads) {
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&] { compute_alone(sweep, rows, board); });
  compute_alone(sweep, rows, board);
}

}  // namespace sweep
