// Passes over a vector block by block. If very little is kept, most of a pass consists of vector instructions
// that find a block without any kept element.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/compression/bits.hpp"

namespace compression {

constexpr std::size_t kBlock = 64;

/// Returns whether any element of a whole block reaches `min`.
inline bool any_reaches(const float* block, std::uint32_t min) {
  std::uint32_t greatest = 0;
  for (std::size_t i = 0; i < kBlock; ++i) greatest = std::max(greatest, magnitude(block[i]));
  return greatest >= min;
}

/// Calls visit(index) for each element whose magnitude() is at least `min`, in order.
template <typename Visit>
void for_each_at_least(std::span<const float> x, std::uint32_t min, Visit visit) {
  std::size_t i = 0;
  const auto visit_until = [&](std::size_t end) {
    for (; i < end; ++i)
      if (magnitude(x[i]) >= min) visit(static_cast<std::uint32_t>(i));
  };
  while (x.size() - i >= kBlock) {
    if (any_reaches(x.data() + i, min))
      visit_until(i + kBlock);
    else
      i += kBlock;
  }
  visit_until(x.size());
}

}  // namespace compression
