// The encoding of kept elements, 8 bytes each without a header: all indexes (uint32, strictly increasing),
// then the values (float32).

#pragma once

#include <cstddef>
#include <span>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/sparse_vector.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

Bytes pack(const SparseVector& kept);

/// Throws std::invalid_argument unless the bytes encode some of `elements` elements.
SparseVector unpack(std::span<const std::byte> bytes, std::size_t elements);

/// A compressor without encode() and size(), in which sparse compressors differ.
Compressor sparse_compressor();

/// The size of `min` to `max` elements.
WireSize sparse_size(std::size_t min, std::size_t max);

}  // namespace compression
