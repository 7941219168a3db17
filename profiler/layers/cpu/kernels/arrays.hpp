// Views of memory as Eigen arrays, and multi-threaded work on all elements.

#pragma once

#include <cstdint>
#include <functional>

#include <Eigen/Core>

#include "profiler/layers/cpu/kernels.hpp"

namespace profiler::cpu {

using Array = Eigen::Map<Eigen::ArrayXf>;
using ConstArray = Eigen::Map<const Eigen::ArrayXf>;

inline Array array(float* data, std::int64_t count) { return {data, count}; }
inline ConstArray array(const float* data, std::int64_t count) { return {data, count}; }

/// Writes an expression of `count` elements to a gradient, from element `begin` on.
template <typename Expression>
void put(const GradientRoom& room, std::int64_t begin, std::int64_t count, const Expression& expression) {
  if (room.add)
    array(room.data + begin, count) += expression;
  else
    array(room.data + begin, count) = expression;
}

/// Works in pieces that stay in the first-level cache between expressions.
template <typename Work>
void each_element(const Pass& pass, std::int64_t count, const Work& work) {
  constexpr std::int64_t kGrain = 1 << 14;
  constexpr std::int64_t kPiece = 1 << 11;
  run_ranges(*pass.pool, count, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t at = begin; at < end; at += kPiece) work(at, std::min(kPiece, end - at));
  });
}

/// Writes the sum over the rows of a matrix to a gradient.
inline void put_column_sums(const Pass& pass, const float* data, std::int64_t rows, std::int64_t columns,
                            const GradientRoom& room) {
  constexpr std::int64_t kGrain = 64;
  if (room.data == nullptr) return;
  run_ranges(*pass.pool, columns, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    Array sums = array(room.data + begin, end - begin);
    if (!room.add) sums.setZero();
    for (std::int64_t row = 0; row < rows; ++row) sums += array(data + row * columns + begin, end - begin);
  });
}

}  // namespace profiler::cpu
