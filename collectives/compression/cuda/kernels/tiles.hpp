// Tiles of kTile elements, their loads, and sums over a block. A kernel is a function of a Lane: one thread
// of a block, with its barriers, shuffles and atomics. On the device a Lane uses CUDA's intrinsics
// (engine.cu); the tests have one that runs on the host. A tile's sum has one order whatever the number of
// blocks, so sums have the same bits on any device.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/words.hpp"

namespace compression::cuda {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kQuad = 4;    // elements in a load of 16 bytes
constexpr unsigned kRounds = 4;  // loads in flight in each thread
constexpr unsigned kRound = kThreads * kQuad;
constexpr std::uint32_t kTile = kRound * kRounds;

FUSEWISE_BOTH inline std::uint32_t tiles_of(std::uint32_t n) { return n / kTile + (n % kTile != 0 ? 1 : 0); }

struct alignas(16) Quad {
  float at[kQuad];
};

/// Elements to read, 16 bytes at once if they begin at such an address.
struct Floats {
  const float* data;
  std::uint32_t count;
  bool is_aligned;

  /// Reads four elements from `i` on and returns how many of them exist; the others are 0.
  FUSEWISE_DEVICE unsigned load(std::uint32_t i, Quad& quad) const {
    if (is_aligned && i + kQuad <= count) {
      quad = *reinterpret_cast<const Quad*>(data + i);
      return kQuad;
    }
    unsigned there = 0;
    for (unsigned e = 0; e < kQuad; ++e) {
      const bool is_there = i + e < count;
      quad.at[e] = is_there ? data[i + e] : 0;
      there += is_there ? 1U : 0U;
    }
    return there;
  }
};

/// A thread's elements of a tile: kRounds times four neighbours.
struct TileLoad {
  Quad quads[kRounds];
  unsigned there[kRounds];

  FUSEWISE_DEVICE static std::uint32_t first(std::uint32_t tile, unsigned thread, unsigned round) {
    return tile * kTile + round * kRound + thread * kQuad;
  }

  FUSEWISE_DEVICE void load(const Floats& x, std::uint32_t tile, unsigned thread) {
    // A whole tile is read without branches: all loads are issued before the first result is needed.
    const bool is_whole = x.is_aligned && x.count - tile * kTile >= kTile;
    if (is_whole) {
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kRounds; ++r) {
        quads[r] = *reinterpret_cast<const Quad*>(x.data + first(tile, thread, r));
        there[r] = kQuad;
      }
      return;
    }
    for (unsigned r = 0; r < kRounds; ++r) there[r] = x.load(first(tile, thread, r), quads[r]);
  }

  /// Calls visit(element) for each, in order.
  template <typename Visit>
  FUSEWISE_DEVICE void for_each(Visit visit) const {
    FUSEWISE_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      FUSEWISE_UNROLL
      for (unsigned e = 0; e < kQuad; ++e)
        if (e < there[r]) visit(quads[r].at[e]);
    }
  }
};

/// Sums over the block, with the result in thread 0: within warps by halves, then warp by warp.
template <unsigned kSums, typename Lane>
FUSEWISE_DEVICE void sum_block(const Lane& lane, double (&sums)[kSums], double (&warps)[kSums][kWarps]) {
  for (unsigned s = 0; s < kSums; ++s) {
    for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) sums[s] += lane.shuffle_xor(sums[s], apart);
    if (lane.thread() % kWarp == 0) warps[s][lane.thread() / kWarp] = sums[s];
  }
  lane.sync();
  if (lane.thread() == 0) {
    for (unsigned s = 0; s < kSums; ++s) {
      sums[s] = 0;
      for (unsigned w = 0; w < kWarps; ++w) sums[s] += warps[s][w];
    }
  }
  lane.sync();
}

}  // namespace compression::cuda
