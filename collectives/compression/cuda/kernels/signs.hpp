// One bit for each element and the scales that belong to them, and back.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/kernels/tiles.hpp"

namespace compression::cuda {

/// Encodes signs and computes the sums for the scales: the sum of |x| (one scale), or the sums of both signs
/// and the number of negative elements. `signs` begins at a multiple of four bytes.
template <unsigned kSums>
struct TakeSigns {
  static_assert(kSums == 1 || kSums == 3);
  Floats x;
  std::uint8_t* signs;
  double* tile_sums;  // a row of tiles for each sum

  struct Shared {
    double warps[kSums][kWarps];
  };

  /// The signs of 32 neighbours, of which eight lanes hold four each, form a word.
  template <typename Lane>
  FUSEWISE_DEVICE void put(const Lane& lane, std::uint32_t i, std::uint32_t nibble) const {
    constexpr unsigned kLanes = 32 / kQuad;
    std::uint32_t word = nibble << kQuad * (lane.thread() % kLanes);
    for (unsigned apart = kLanes / 2; apart > 0; apart /= 2) word |= lane.shuffle_xor(word, apart);
    if (lane.thread() % kLanes != 0 || i >= x.count) return;
    if (x.count - i >= 32) {
      *reinterpret_cast<std::uint32_t*>(signs + i / 8) = word;
      return;
    }
    for (std::uint32_t at = i; at < x.count; at += 8)
      signs[at / 8] = static_cast<std::uint8_t>(word >> (at - i));
  }

  FUSEWISE_DEVICE static void add(double (&sums)[kSums], float each) {
    if constexpr (kSums == 1) {
      sums[0] += size_of(each);
    } else {
      const bool is_below = is_below_zero(each);
      sums[0] += is_below ? 0 : static_cast<double>(each);
      sums[1] += is_below ? static_cast<double>(-each) : 0;
      sums[2] += is_below ? 1 : 0;
    }
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const std::uint32_t tiles = tiles_of(x.count);
    for (std::uint32_t tile = lane.block(); tile < tiles; tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      double sums[kSums] = {};
      load.for_each([&](float each) { add(sums, each); });
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kRounds; ++r) {
        std::uint32_t nibble = 0;
        FUSEWISE_UNROLL
        for (unsigned e = 0; e < kQuad; ++e) nibble |= (is_below_zero(load.quads[r].at[e]) ? 1U : 0U) << e;
        put(lane, TileLoad::first(tile, lane.thread(), r), nibble);
      }
      sum_block(lane, sums, shared.warps);
      if (lane.thread() != 0) continue;
      for (unsigned s = 0; s < kSums; ++s) tile_sums[std::uint64_t{s} * tiles + tile] = sums[s];
    }
  }
};

/// Writes the scales before the signs, from the few remaining sums.
struct PutScales {
  const double* sums;  // sum_count for each kind, one or three kinds
  std::uint32_t sum_count;
  std::uint32_t kinds;
  std::uint32_t n;
  float* scales;

  struct Shared {};

  FUSEWISE_DEVICE static float mean_of(double sum, double count) {
    return count == 0 ? 0 : without_payload(static_cast<float>(sum / count));
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    if (lane.thread() != 0) return;
    const double first = sum_in_order(sums, sum_count);
    const double negatives = kinds == 1 ? 0 : sum_in_order(sums + std::uint64_t{2} * sum_count, sum_count);
    scales[0] = mean_of(first, static_cast<double>(n) - negatives);
    if (kinds > 1) scales[1] = mean_of(sum_in_order(sums + sum_count, sum_count), negatives);
  }
};

/// As AddKept, for signs. values[1] is the value of each negative element, values[0] of the others.
struct AddSigns {
  const std::uint8_t* signs;
  float values[2];
  float* out;
  std::uint32_t n;
  bool is_aligned;
  bool subtracts;

  struct Shared {};

  FUSEWISE_DEVICE float changed(float before, std::uint32_t is_negative) const {
    const float value = is_negative != 0 ? values[1] : values[0];
    if (!subtracts) return before + value;
    return magnitude_of(value) < kInfinityBits ? before - value : 0;
  }

  FUSEWISE_DEVICE void change(std::uint32_t i) const {
    const std::uint32_t nibble = std::uint32_t{signs[i / 8]} >> i % 8;
    if (is_aligned && i + kQuad <= n) {
      Quad& to = *reinterpret_cast<Quad*>(out + i);
      Quad quad = to;
      FUSEWISE_UNROLL
      for (unsigned e = 0; e < kQuad; ++e) quad.at[e] = changed(quad.at[e], nibble >> e & 1U);
      to = quad;
      return;
    }
    for (std::uint32_t e = 0; e < kQuad && i + e < n; ++e) out[i + e] = changed(out[i + e], nibble >> e & 1U);
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
