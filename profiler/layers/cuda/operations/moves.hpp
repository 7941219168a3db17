// Builds a Move with the smallest number of dimensions.

#pragma once

#include "profiler/layers/cuda/operations/descriptors.hpp"

namespace profiler::cuda {

inline std::int64_t byte_offset(const Pass& pass, std::int64_t elements) {
  return elements * static_cast<std::int64_t>(pass.device->arithmetic().bytes());
}

class MoveMaker {
 public:
  /// From the outermost dimension to the innermost.
  void add(std::int64_t size, std::int64_t from_stride, std::int64_t to_stride) {
    if (size == 1) return;
    const int last = move_.dimensions - 1;
    // The previous dimension steps exactly over this one, so they are joined.
    if (last >= 0 && move_.from_strides[last] == size * from_stride &&
        move_.to_strides[last] == size * to_stride) {
      set(last, move_.sizes[last] * size, from_stride, to_stride);
      return;
    }
    set(move_.dimensions++, size, from_stride, to_stride);
  }

  Move made() const { return move_; }

 private:
  void set(int at, std::int64_t size, std::int64_t from_stride, std::int64_t to_stride) {
    move_.sizes[at] = size;
    move_.from_strides[at] = from_stride;
    move_.to_strides[at] = to_stride;
  }

  Move move_;
};

}  // namespace profiler::cuda
