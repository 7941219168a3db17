// Reads properties of floats from their bits. Choices use masks: a conditional may become a branch, and a
// comparison of floats may trap; either prevents vectorization.

#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace compression {

/// Returns the bits without the sign, ordered like |x|: NaN > infinity > every number, and -0 is 0.
constexpr std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }

/// Returns the lowest magnitude() with |x| >= threshold: 0 for a negative threshold, its own bits for NaN.
constexpr std::uint32_t min_magnitude(float threshold) { return threshold < 0 ? 0 : magnitude(threshold); }

/// Compares signed integers, for which more machines have vector instructions.
constexpr bool is_finite(float x) { return static_cast<std::int32_t>(magnitude(x)) < 0x7f800000; }

/// x < 0
constexpr bool is_negative(float x) { return std::bit_cast<std::uint32_t>(x) - 0x80000001U <= 0x7f7fffffU; }

constexpr std::uint32_t choose(bool first, std::uint32_t a, std::uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<std::uint32_t>(first)));
}

/// Returns x if `wanted`, otherwise 0.
constexpr float only_if(bool wanted, float x) {
  return std::bit_cast<float>(choose(wanted, std::bit_cast<std::uint32_t>(x), 0));
}

/// Returns x, with every NaN replaced by the positive one without payload, because machines differ in the NaN
/// that a sum gives.
constexpr float plain_nan(float x) {
  constexpr auto kNan = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  return std::bit_cast<float>(choose(magnitude(x) > 0x7f800000U, kNan, std::bit_cast<std::uint32_t>(x)));
}

}  // namespace compression
