// What the bits of a float say. Choices here are masks: a choice between values may become a branch, and a
// comparison of floats may trap, and either keeps a loop from becoming vector instructions.

#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace compression {

/// The bits without the sign, in the order of |x|: NaN > infinity > every number, and -0 is 0.
constexpr std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }

/// What magnitude() of `x` must reach so that |x| >= threshold: 0 where the threshold is negative, its own
/// bits where it is NaN.
constexpr std::uint32_t min_magnitude(float threshold) { return threshold < 0 ? 0 : magnitude(threshold); }

/// Compared as signed numbers, for which more machines have vector instructions.
constexpr bool is_finite(float x) { return static_cast<std::int32_t>(magnitude(x)) < 0x7f800000; }

/// x < 0
constexpr bool is_negative(float x) { return std::bit_cast<std::uint32_t>(x) - 0x80000001U <= 0x7f7fffffU; }

constexpr std::uint32_t choose(bool first, std::uint32_t a, std::uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<std::uint32_t>(first)));
}

/// x, or 0 where it is not wanted.
constexpr float only_if(bool wanted, float x) {
  return std::bit_cast<float>(choose(wanted, std::bit_cast<std::uint32_t>(x), 0));
}

/// x, NaN as the one of positive sign and no payload: which NaN a sum gives differs between machines.
constexpr float plain_nan(float x) {
  constexpr auto kNan = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  return std::bit_cast<float>(choose(magnitude(x) > 0x7f800000U, kNan, std::bit_cast<std::uint32_t>(x)));
}

}  // namespace compression
