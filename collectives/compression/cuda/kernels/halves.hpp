// float16 and bfloat16 on a device: the conversions of half.hpp in a form that nvcc accepts, and a pass in
// each direction.

#pragma once

#include "collectives/compression/cuda/kernels/tiles.hpp"

namespace compression::cuda {

enum class Half : std::uint32_t { float16, bfloat16 };

FUSEWISE_BOTH inline std::uint32_t to_float16_bits(float x) {
  const std::uint32_t key = magnitude_of(x);
  const std::uint32_t sign = same_bits<std::uint32_t>(x) >> 16U & 0x8000U;
  if (key > kInfinityBits) return sign | 0x7e00U | (key >> 13U & 0x1ffU);
  if (key >= 0x477ff000U) return sign | 0x7c00U;  // from 65520 on
  // Under 2^-14 the addition rounds to multiples of 2^-24.
  if (key < 0x38800000U) return sign | (same_bits<std::uint32_t>(same_bits<float>(key) + 0.5F) - 0x3f000000U);
  return sign | (key - 0x38000000U + 0xfffU + (key >> 13U & 1U)) >> 13U;
}

FUSEWISE_BOTH inline float from_float16_bits(std::uint32_t half) {
  const std::uint32_t key = half & 0x7fffU;
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  if (key >= 0x7c00U) return same_bits<float>(sign | kInfinityBits | key << 13U);
  if (key >= 0x0400U) return same_bits<float>(sign | ((key << 13U) + 0x38000000U));
  const float tiny = static_cast<float>(key) * (1.0F / 16777216.0F);
  return same_bits<float>(sign | same_bits<std::uint32_t>(tiny));
}

FUSEWISE_BOTH inline std::uint32_t to_bfloat16_bits(float x) {
  const auto bits = same_bits<std::uint32_t>(x);
  if (magnitude_of(x) > kInfinityBits) return bits >> 16U | 0x40U;
  return (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
}

FUSEWISE_BOTH inline std::uint32_t to_half(Half kind, float x) {
  return kind == Half::float16 ? to_float16_bits(x) : to_bfloat16_bits(x);
}

FUSEWISE_BOTH inline float from_half(Half kind, std::uint32_t half) {
  return kind == Half::float16 ? from_float16_bits(half) : same_bits<float>(half << 16U);
}

struct alignas(8) HalfQuad {
  std::uint16_t at[kQuad];
};

/// `halves` begins at a multiple of eight bytes, as all allocations do.
struct TakeHalves {
  Floats x;
  std::uint16_t* halves;
  Half kind;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    for (std::uint32_t tile = lane.block(); tile < tiles_of(x.count); tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kRounds; ++r) {
        HalfQuad quad;
        FUSEWISE_UNROLL
        for (unsigned e = 0; e < kQuad; ++e)
          quad.at[e] = static_cast<std::uint16_t>(to_half(kind, load.quads[r].at[e]));
        const std::uint32_t i = TileLoad::first(tile, lane.thread(), r);
        if (load.there[r] == kQuad)
          *reinterpret_cast<HalfQuad*>(halves + i) = quad;
        else
          for (unsigned e = 0; e < load.there[r]; ++e) halves[i + e] = quad.at[e];
      }
    }
  }
};

/// Adds the decoded halves; or subtracts them, and sets 0 where the value is not finite.
struct AddHalves {
  const std::uint16_t* halves;
  float* out;
  std::uint32_t n;
  Half kind;
  bool is_aligned;  // both
  bool subtracts;

  struct Shared {};

  FUSEWISE_DEVICE float changed(float before, std::uint32_t half) const {
    const float value = from_half(kind, half);
    if (!subtracts) return before + value;
    return magnitude_of(value) < kInfinityBits ? before - value : 0;
  }

  FUSEWISE_DEVICE void change(std::uint32_t i) const {
    if (!is_aligned || i + kQuad > n) {
      for (std::uint32_t e = 0; e < kQuad && i + e < n; ++e) out[i + e] = changed(out[i + e], halves[i + e]);
      return;
    }
    const HalfQuad quad = *reinterpret_cast<const HalfQuad*>(halves + i);
    Quad& to = *reinterpret_cast<Quad*>(out + i);
    Quad sum = to;
    FUSEWISE_UNROLL
    for (unsigned e = 0; e < kQuad; ++e) sum.at[e] = changed(sum.at[e], quad.at[e]);
    to = sum;
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    for (std::uint32_t tile = lane.block(); tile < tiles_of(n); tile += lane.blocks()) {
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kRounds; ++r) {
        const std::uint32_t i = TileLoad::first(tile, lane.thread(), r);
        if (i < n) change(i);
      }
    }
  }
};

}  // namespace compression::cuda
