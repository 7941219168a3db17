// Sums for the mean and deviation of the finite elements, in one pass.

#pragma once

#include "collectives/compression/cuda/kernels/tiles.hpp"

namespace compression::cuda {

/// One row of tiles each for the sum, the sum of squares and the number of finite elements.
struct SumMoments {
  static constexpr unsigned kSums = 3;
  Floats x;
  double* tile_sums;

  struct Shared {
    double warps[kSums][kWarps];
  };

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const std::uint32_t tiles = tiles_of(x.count);
    for (std::uint32_t tile = lane.block(); tile < tiles; tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      double sums[kSums] = {};
      load.for_each([&](float each) {
        const bool is_finite = magnitude_of(each) < kInfinityBits;
        const double value = is_finite ? static_cast<double>(each) : 0;
        sums[0] += value;
        sums[1] += value * value;
        sums[2] += is_finite ? 1 : 0;
      });
      sum_block(lane, sums, shared.warps);
      if (lane.thread() != 0) continue;
      for (unsigned s = 0; s < kSums; ++s) tile_sums[std::uint64_t{s} * tiles + tile] = sums[s];
    }
  }
};

}  // namespace compression::cuda
