// One bit an element, after one or two scales: bit i % 8 of byte i / 8 is set where element i is negative;
// bits beyond the last element are 0.

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

/// Throws std::invalid_argument unless `bytes` are `scales` floats of no sign and the signs of `elements`.
void check_signs(const char* name, std::span<const std::byte> bytes, std::size_t scales,
                 std::size_t elements);

/// values[1] for each negative element, values[0] for the others: adds them.
void add_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> out);

/// Subtracts them; 0 where the value is not finite.
void subtract_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> from);

}  // namespace compression
