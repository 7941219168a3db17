// The elements of greatest magnitude, exactly. A broken gradient is never hidden: infinities count as greater
// than all numbers and NaN as greater still, so they are kept first and travel as in a dense all-reduce.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/sparse_vector.hpp"

namespace compression {

/// Throws std::invalid_argument where an index would not fit into 32 bits.
void expect_indexable(std::span<const float> x);

/// Exactly min(k, x.size()) elements of greatest magnitude; of equals the lowest indexes. Here and below: at
/// most 2^32 elements, else std::invalid_argument.
SparseVector top_k(std::span<const float> x, std::size_t k);

/// |x| of the k-th greatest, which at_least() turns back into k elements and those that equal the last. Asks
/// for k >= 1 (else std::invalid_argument); the least of all where k > x.size(), 0 where x is empty.
float kth_magnitude(std::span<const float> x, std::size_t k);

/// Every |x| >= threshold.
SparseVector at_least(std::span<const float> x, float threshold);

/// How many at_least() would keep.
std::size_t count_at_least(std::span<const float> x, float threshold);

}  // namespace compression
