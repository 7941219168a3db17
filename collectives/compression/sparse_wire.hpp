// Kept elements on the wire, 8 bytes each and nothing besides: all indexes (uint32, strictly growing), then
// as many values (float32).

#pragma once

#include <cstddef>
#include <span>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/sparse_vector.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

Bytes pack(const SparseVector& kept);

/// Throws std::invalid_argument where the bytes are not some of `elements` elements.
SparseVector unpack(std::span<const std::byte> bytes, std::size_t elements);

/// Without the encoding and its size, which are what sparse compressors differ in.
Compressor sparse_compressor();

/// From `least` to `most` elements.
WireSize sparse_size(std::size_t min, std::size_t max);

}  // namespace compression
