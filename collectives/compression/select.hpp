// Selects the elements of largest magnitude exactly. A broken gradient is never hidden: infinities count as
// larger than all numbers and NaN as larger still, so they are kept first and sent as in a dense all-reduce.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/sparse_vector.hpp"

namespace compression {

/// Throws std::invalid_argument if an index would not fit into 32 bits.
void expect_indexable(std::span<const float> x);

/// Returns exactly min(k, x.size()) elements of largest magnitude; ties go to the lowest indexes. Here and
/// below: at most 2^32 elements, otherwise std::invalid_argument.
SparseVector top_k(std::span<const float> x, std::size_t k);

/// Returns |x| of the k-th largest element, from which at_least() selects k elements and those equal to the
/// last. Requires k >= 1 (otherwise std::invalid_argument); returns the smallest if k > x.size(), 0 if x is
/// empty.
float kth_magnitude(std::span<const float> x, std::size_t k);

/// Returns every element with |x| >= threshold.
SparseVector at_least(std::span<const float> x, float threshold);

/// Returns the number of elements that at_least() would keep.
std::size_t count_at_least(std::span<const float> x, float threshold);

}  // namespace compression
