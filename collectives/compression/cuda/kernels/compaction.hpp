// Writes the elements that a selection keeps side by side, in the order of their indexes, in one pass.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/kernels/selection.hpp"

namespace compression::cuda {

/// The counts of both kinds of elements in one word: the message of a tile to later tiles.
struct TileWord {
  static constexpr unsigned kField = 31;
  static constexpr std::uint64_t kAggregate = std::uint64_t{1} << 62U;  // of this tile only
  static constexpr std::uint64_t kInclusive = std::uint64_t{1} << 63U;  // of this and all earlier tiles
  static constexpr std::uint64_t kCounts = kAggregate - 1;

  FUSEWISE_BOTH static std::uint64_t of(std::uint32_t surely, std::uint32_t maybe) {
    return std::uint64_t{surely} << kField | maybe;
  }
  FUSEWISE_BOTH static std::uint32_t surely(std::uint64_t word) {
    return static_cast<std::uint32_t>((word & kCounts) >> kField);
  }
  FUSEWISE_BOTH static std::uint32_t maybe(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & ((std::uint64_t{1} << kField) - 1));
  }
};

/// Sums the counts of all tiles before one, from the words of up to kWarp of them at once, back to a tile
/// with an inclusive count (decoupled look-back: Merrill and Garland 2016). Run by one whole warp.
template <typename Lane>
FUSEWISE_DEVICE std::uint64_t look_back(const Lane& lane, const std::uint64_t* words, std::uint32_t tile) {
  const unsigned own = lane.thread() % kWarp;
  std::uint64_t before = 0;
  for (std::uint32_t end = tile; end > 0; end = end > kWarp ? end - kWarp : 0) {
    std::uint64_t word = TileWord::kInclusive;  // before the first tile
    if (own < end)
      while ((word = lane.observe(words + (end - 1 - own))) == 0) lane.pause();
    const std::uint32_t inclusive = lane.ballot((word & TileWord::kInclusive) != 0);
    const std::uint32_t up_to_first = inclusive ^ (inclusive - 1);  // all bits if there is none
    std::uint64_t part = (up_to_first >> own & 1U) != 0 ? word & TileWord::kCounts : 0;
    for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) part += lane.shuffle_xor(part, apart);
    before += part;
    if (inclusive != 0) break;
  }
  return before;
}

/// Counts of four elements in each of kRounds rounds, 16 bits each; enough for a block.
struct RoundCounts {
  static constexpr unsigned kField = 16;

  FUSEWISE_BOTH static std::uint32_t at(std::uint64_t counts, unsigned round) {
    return static_cast<std::uint32_t>(counts >> (kField * round) & 0xffffU);
  }
  FUSEWISE_BOTH static std::uint32_t total(std::uint64_t counts) {
    std::uint32_t sum = 0;
    for (unsigned r = 0; r < kRounds; ++r) sum += at(counts, r);
    return sum;
  }
};

/// Which of a thread's four neighbours in each round are of either kind, one bit each.
struct Masks {
  std::uint32_t surely[kRounds];
  std::uint32_t maybe[kRounds];

  FUSEWISE_DEVICE static std::uint32_t ones(std::uint32_t mask) {
    return (mask & 1U) + (mask >> 1U & 1U) + (mask >> 2U & 1U) + (mask >> 3U & 1U);
  }
  FUSEWISE_DEVICE static std::uint64_t counts(const std::uint32_t (&masks)[kRounds]) {
    std::uint64_t out = 0;
    FUSEWISE_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) out |= std::uint64_t{ones(masks[r])} << (RoundCounts::kField * r);
    return out;
  }
};

/// The positions of a thread's elements in the tile, round by round, and the tile's total.
struct Ranks {
  std::uint64_t before;
  std::uint64_t total;

  /// Position of the first element of a round: after earlier rounds of all threads and this round of earlier
  /// threads.
  FUSEWISE_DEVICE std::uint32_t at(unsigned round) const {
    std::uint32_t rank = RoundCounts::at(before, round);
    for (unsigned r = 0; r < round; ++r) rank += RoundCounts::at(total, r);
    return rank;
  }
};

template <typename Lane>
FUSEWISE_DEVICE std::uint64_t scan_warp(const Lane& lane, std::uint64_t counts) {
  for (unsigned apart = 1; apart < kWarp; apart *= 2) {
    const std::uint64_t earlier = lane.shuffle_up(counts, apart);
    if (lane.thread() % kWarp >= apart) counts += earlier;
  }
  return counts;
}

FUSEWISE_DEVICE inline Ranks ranks_of(const std::uint64_t (&warps)[kWarps], unsigned warp,
                                      std::uint64_t before_in_warp) {
  Ranks ranks = {before_in_warp, 0};
  FUSEWISE_UNROLL
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w < warp) ranks.before += warps[w];
    ranks.total += warps[w];
  }
  return ranks;
}

struct KeptOut {
  std::uint32_t* indexes;
  float* values;
  std::uint32_t capacity;  // elements beyond are counted, but not written
};

/// Writes kept elements with their indexes, in order, in one pass. Kept are those that reach bracket.surely,
/// and `wanted` of those that reach only bracket.maybe, after the first `from`.
struct CompactShared {
  std::uint64_t surely[kWarps];
  std::uint64_t maybe[kWarps];
  std::uint64_t before;
  std::uint32_t tile;
};

struct Window {
  Brackets bracket;
  std::uint32_t from;
  std::uint32_t wanted;

  /// Returns how many of the first `count` optional elements are kept.
  FUSEWISE_BOTH std::uint32_t of_first(std::uint32_t count) const {
    const std::uint32_t past = count > from ? count - from : 0;
    return past < wanted ? past : wanted;
  }
  FUSEWISE_BOTH bool keeps(std::uint32_t rank) const { return rank - from < wanted; }
};

struct Tiles {
  std::uint64_t* words;  // one per tile; initially 0
  std::uint32_t* next;   // initially 0
  std::uint32_t* kept;   // final number
};

/// The part of a compaction that does not depend on the input. Reader: count(), read(tile, thread, masks),
/// index(i), value(round, element, i).
template <typename Lane, typename Reader>
FUSEWISE_DEVICE void compact(const Lane& lane, CompactShared& shared, Reader& reader, const Window& window,
                             const Tiles& state, const KeptOut& out) {
  const unsigned warp = lane.thread() / kWarp;
  const std::uint32_t tiles = tiles_of(reader.count());
  for (;;) {
    // Tiles are numbered as blocks start, so that earlier tiles are already running.
    if (lane.thread() == 0) shared.tile = lane.add(state.next, 1U);
    lane.sync();
    const std::uint32_t tile = shared.tile;
    if (tile >= tiles) return;
    Masks masks;
    reader.read(tile, lane.thread(), masks);
    const std::uint64_t own_surely = Masks::counts(masks.surely);
    const std::uint64_t own_maybe = Masks::counts(masks.maybe);
    const std::uint64_t in_warp_surely = scan_warp(lane, own_surely);
    const std::uint64_t in_warp_maybe = scan_warp(lane, own_maybe);
    if (lane.thread() % kWarp == kWarp - 1) {
      shared.surely[warp] = in_warp_surely;
      shared.maybe[warp] = in_warp_maybe;
    }
    lane.sync();
    const Ranks surely = ranks_of(shared.surely, warp, in_warp_surely - own_surely);
    const Ranks maybe = ranks_of(shared.maybe, warp, in_warp_maybe - own_maybe);
    if (warp == 0) {
      const std::uint64_t own =
          TileWord::of(RoundCounts::total(surely.total), RoundCounts::total(maybe.total));
      if (lane.thread() == 0 && tile > 0) lane.publish(state.words + tile, TileWord::kAggregate | own);
      const std::uint64_t before = look_back(lane, state.words, tile);
      if (lane.thread() == 0) {
        lane.publish(state.words + tile, TileWord::kInclusive | (before + own));
        shared.before = before;
        const std::uint64_t all = before + own;
        if (tile + 1 == tiles) *state.kept = TileWord::surely(all) + window.of_first(TileWord::maybe(all));
      }
    }
    lane.sync();
    const std::uint32_t surely_before = TileWord::surely(shared.before);
    const std::uint32_t maybe_before = TileWord::maybe(shared.before);
    FUSEWISE_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      if ((masks.surely[r] | masks.maybe[r]) == 0) continue;
      std::uint32_t surely_rank = surely_before + surely.at(r);
      std::uint32_t maybe_rank = maybe_before + maybe.at(r);
      FUSEWISE_UNROLL
      for (unsigned e = 0; e < kQuad; ++e) {
        const bool is_sure = (masks.surely[r] >> e & 1U) != 0;
        const bool may_be = (masks.maybe[r] >> e & 1U) != 0;
        const std::uint32_t to = surely_rank + window.of_first(maybe_rank);
        if ((is_sure || (may_be && window.keeps(maybe_rank))) && to < out.capacity) {
          const std::uint32_t i = TileLoad::first(tile, lane.thread(), r) + e;
          out.indexes[to] = reader.index(i);
          out.values[to] = reader.value(r, e, i);
        }
        surely_rank += is_sure ? 1U : 0U;
        maybe_rank += may_be ? 1U : 0U;
      }
    }
  }
}

struct FloatReader {
  Floats x;
  const std::uint32_t* places;
  Brackets bracket;
  TileLoad load;

  FUSEWISE_DEVICE std::uint32_t count() const { return x.count; }
  FUSEWISE_DEVICE void read(std::uint32_t tile, unsigned thread, Masks& masks) {
    load.load(x, tile, thread);
    FUSEWISE_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      masks.surely[r] = 0;
      masks.maybe[r] = 0;
      FUSEWISE_UNROLL
      for (unsigned e = 0; e < kQuad; ++e) {
        const std::uint32_t key = magnitude_of(load.quads[r].at[e]);
        const bool is_there = e < load.there[r];
        const bool is_sure = is_there && key >= bracket.surely;
        masks.surely[r] |= (is_sure ? 1U : 0U) << e;
        masks.maybe[r] |= (is_there && !is_sure && key >= bracket.maybe ? 1U : 0U) << e;
      }
    }
  }
  FUSEWISE_DEVICE std::uint32_t index(std::uint32_t i) const { return places == nullptr ? i : places[i]; }
  FUSEWISE_DEVICE float value(unsigned round, unsigned e, std::uint32_t /*i*/) const {
    return load.quads[round].at[e];
  }
};

/// Takes all elements that reach a floor as candidates, unless there are too many.
struct TakeCandidates {
  Floats x;
  Progress* progress;
  Tiles tiles;
  KeptOut out;

  using Shared = CompactShared;

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    if (progress->is_direct != 0) return;
    const Brackets bracket = {progress->floor, progress->floor};
    FloatReader reader = {x, nullptr, bracket, {}};
    compact(lane, shared, reader, Window{bracket, 0, 0}, tiles, out);
  }
};

/// Keeps the selected elements.
struct Keep {
  Choice source;
  const Progress* progress;
  Tiles tiles;
  KeptOut out;

  using Shared = CompactShared;

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    FloatReader reader = {source.floats(), source.places(), progress->bracket, {}};
    compact(lane, shared, reader, Window{progress->bracket, progress->from, progress->wanted}, tiles, out);
  }
};

/// Keeps the elements that reach a given threshold.
struct KeepAtLeast {
  Floats x;
  std::uint32_t min;
  Tiles tiles;
  KeptOut out;

  using Shared = CompactShared;

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const Brackets bracket = {min, min};
    FloatReader reader = {x, nullptr, bracket, {}};
    compact(lane, shared, reader, Window{bracket, 0, 0}, tiles, out);
  }
};

struct BitReader {
  const float* x;
  const std::uint32_t* bits;
  std::uint32_t n;

  FUSEWISE_DEVICE std::uint32_t count() const { return n; }
  FUSEWISE_DEVICE void read(std::uint32_t tile, unsigned thread, Masks& masks) const {
    FUSEWISE_UNROLL
    for (unsigned r = 0; r < kRounds; ++r) {
      const std::uint32_t i = TileLoad::first(tile, thread, r);
      masks.surely[r] = i < n ? bits[i / 32] >> i % 32 & 0xfU : 0;
      masks.maybe[r] = 0;
    }
  }
  FUSEWISE_DEVICE static std::uint32_t index(std::uint32_t i) { return i; }
  FUSEWISE_DEVICE float value(unsigned /*round*/, unsigned /*e*/, std::uint32_t i) const { return x[i]; }
};

/// Keeps the elements whose bit is set.
struct KeepMarked {
  BitReader source;
  Tiles tiles;
  KeptOut out;

  using Shared = CompactShared;

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    BitReader reader = source;
    compact(lane, shared, reader, Window{{0, 0}, 0, 0}, tiles, out);
  }
};

}  // namespace compression::cuda
