// Teams of threads that take a row together.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

constexpr unsigned kTeamThreads = 256;
constexpr unsigned kWarpThreads = 32;
constexpr unsigned kTeamWarps = kTeamThreads / kWarpThreads;

struct TeamShared {
  float warps[kTeamWarps];
};

struct Sum {
  FUSEWISE_BOTH float operator()(float a, float b) const { return a + b; }
};
struct Max {
  FUSEWISE_BOTH float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Joins the numbers of a warp's threads; each gets the result.
template <typename Lane, typename Join>
FUSEWISE_BOTH float joined_by_warp(const Lane& lane, float x, Join join) {
  for (unsigned apart = kWarpThreads / 2; apart > 0; apart /= 2) x = join(x, lane.shuffle_xor(x, apart));
  return x;
}

/// The threads of a warp, for a short row.
template <typename Lane>
class Warp {
 public:
  FUSEWISE_BOTH explicit Warp(const Lane& lane) : lane_(lane) {}

  FUSEWISE_BOTH std::int64_t first() const { return lane_.thread() % kWarpThreads; }
  FUSEWISE_BOTH std::int64_t step() const { return kWarpThreads; }
  FUSEWISE_BOTH float sum(float x) const { return joined_by_warp(lane_, x, Sum{}); }
  FUSEWISE_BOTH float max(float x) const { return joined_by_warp(lane_, x, Max{}); }

 private:
  const Lane& lane_;
};

/// All threads of a block. Lane: one of them, of collectives/compression/cuda/kernels/tiles.hpp.
template <typename Lane>
class Team {
 public:
  FUSEWISE_BOTH Team(const Lane& lane, TeamShared& shared) : lane_(lane), shared_(shared) {}

  FUSEWISE_BOTH std::int64_t first() const { return lane_.thread(); }
  FUSEWISE_BOTH std::int64_t step() const { return kTeamThreads; }
  FUSEWISE_BOTH float sum(float x) const { return reduced(x, Sum{}); }
  FUSEWISE_BOTH float max(float x) const { return reduced(x, Max{}); }

 private:
  template <typename Join>
  FUSEWISE_BOTH float reduced(float x, Join join) const {
    x = joined_by_warp(lane_, x, join);
    if (lane_.thread() % kWarpThreads == 0) shared_.warps[lane_.thread() / kWarpThreads] = x;
    lane_.sync();
    float out = shared_.warps[0];
    for (unsigned warp = 1; warp < kTeamWarps; ++warp) out = join(out, shared_.warps[warp]);
    lane_.sync();  // before the next writes there
    return out;
  }

  const Lane& lane_;
  TeamShared& shared_;
};

/// Runs all rows, one block after another.
template <typename Body>
struct RowsBody {
  using Shared = TeamShared;
  Body body;
  std::int64_t rows;

  template <typename Lane>
  FUSEWISE_BOTH void operator()(const Lane& lane, Shared& shared) const {
    for (std::int64_t row = lane.block(); row < rows; row += lane.blocks())
      body(Team<Lane>(lane, shared), row);
  }
};

/// Runs all rows, one warp after another.
template <typename Body>
struct ShortRowsBody {
  struct Shared {};
  Body body;
  std::int64_t rows;

  template <typename Lane>
  FUSEWISE_BOTH void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::int64_t step = std::int64_t{lane.blocks()} * kTeamWarps;
    for (std::int64_t row = std::int64_t{lane.block()} * kTeamWarps + lane.thread() / kWarpThreads;
         row < rows; row += step)
      body(Warp<Lane>(lane), row);
  }
};

}  // namespace profiler::cuda
