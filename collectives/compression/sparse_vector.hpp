// A vector of which only some elements are kept.

#pragma once

#include <cstdint>
#include <vector>

namespace compression {

/// The elements at `indexes`, which are strictly increasing; `values` has the same length. All other elements
/// are 0.
struct SparseVector {
  std::vector<std::uint32_t> indexes;
  std::vector<float> values;
  bool operator==(const SparseVector&) const = default;
};

/// The encoded size of a kept element: int32 index and float32 value.
inline constexpr std::int64_t kBytesPerKept = 8;

}  // namespace compression
