// One bit per element, after one or two scales: bit i % 8 of byte i / 8 is set if element i is negative; bits
// beyond the last element are 0.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

constexpr std::size_t sign_bytes(std::size_t elements) { return (elements + 7) / 8; }

/// `to` has sign_bytes(x.size()) bytes. -0 and NaN are not negative.
void put_signs(std::byte* to, std::span<const float> x);

/// Throws std::invalid_argument unless `bytes` consists of `scales` non-negative floats and the signs of
/// `elements`.
void check_signs(const char* name, std::span<const std::byte> bytes, std::size_t scales,
                 std::size_t elements);

/// Adds values[1] for each negative element and values[0] for the others.
void add_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> out);

/// Subtracts them; sets 0 where the value is not finite.
void subtract_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> from);

}  // namespace compression
