// Adds gradients and kept elements to residuals and results, and checks indexes that were received.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/kernels/selection.hpp"

namespace compression::cuda {

/// Finds the first index that does not increase or is out of range.
struct CheckIndexes {
  const std::uint32_t* indexes;
  std::uint32_t count;
  std::uint32_t n;
  Progress* progress;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::uint32_t step = lane.blocks() * kThreads;
    for (std::uint32_t i = lane.block() * kThreads + lane.thread(); i < count; i += step)
      if (indexes[i] >= n || (i > 0 && indexes[i] <= indexes[i - 1])) lane.raise(&progress->first_bad, ~i);
  }
};

/// Adds a gradient to the residual of error feedback.
struct AddFloats {
  Floats x;
  float* out;
  bool is_aligned;  // both

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    for (std::uint32_t tile = lane.block(); tile < tiles_of(x.count); tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kRounds; ++r) {
        const std::uint32_t i = TileLoad::first(tile, lane.thread(), r);
        if (is_aligned && load.there[r] == kQuad) {
          Quad& to = *reinterpret_cast<Quad*>(out + i);
          Quad sum = to;
          FUSEWISE_UNROLL
          for (unsigned e = 0; e < kQuad; ++e) sum.at[e] += load.quads[r].at[e];
          to = sum;
        } else {
          for (unsigned e = 0; e < load.there[r]; ++e) out[i + e] += load.quads[r].at[e];
        }
      }
    }
  }
};

/// Adds kept elements, or subtracts them and sets 0 where the value is not finite.
struct AddKept {
  const std::uint32_t* indexes;
  const float* values;
  std::uint32_t count;
  float* out;
  bool subtracts;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::uint32_t step = lane.blocks() * kThreads;
    for (std::uint32_t i = lane.block() * kThreads + lane.thread(); i < count; i += step) {
      float& to = out[indexes[i]];
      if (subtracts)
        to = magnitude_of(values[i]) < kInfinityBits ? to - values[i] : 0;
      else
        to += values[i];
    }
  }
};

}  // namespace compression::cuda
