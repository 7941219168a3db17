// Converts to float16 (IEEE 754 binary16) and bfloat16 as bits. Rounds to nearest, ties to even; overflow
// becomes infinite; NaN stays NaN with the leading bits of its payload.

#pragma once

#include <bit>
#include <cstdint>

#include "collectives/compression/bits.hpp"

namespace compression {

constexpr std::uint16_t to_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t key = magnitude(x);
  constexpr std::uint32_t kRebias = (127U - 15U) << 23U;
  const std::uint32_t normal = (key - kRebias + 0xfffU + (key >> 13U & 1U)) >> 13U;
  // Under 2^-14 the addition rounds to multiples of 2^-24, which are the last bits of numbers from 0.5 to 1.
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(key) + 0.5F) - 0x3f000000U;
  const std::uint32_t nan = 0x7e00U | (key >> 13U & 0x1ffU);
  std::uint32_t out = choose(key < 0x38800000U, tiny, normal);
  out = choose(key >= 0x477ff000U, 0x7c00U, out);  // from 65520 on
  out = choose(key > 0x7f800000U, nan, out);
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | out);
}

constexpr float from_float16(std::uint16_t half) {
  const std::uint32_t key = half & 0x7fffU;
  const std::uint32_t normal = (key << 13U) + ((127U - 15U) << 23U);
  const auto tiny =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(key)) * 0x1p-24F);
  std::uint32_t out = choose(key < 0x0400U, tiny, normal);
  out = choose(key >= 0x7c00U, 0x7f800000U | key << 13U, out);
  return std::bit_cast<float>(out | (half & 0x8000U) << 16U);
}

constexpr std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  const std::uint32_t nan = bits >> 16U | 0x40U;
  return static_cast<std::uint16_t>(choose(magnitude(x) > 0x7f800000U, nan, rounded));
}

constexpr float from_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

}  // namespace compression
