// The kernels, as functions of a Lane: one thread of a block, with its barriers, shuffles and atomics. On the
// device a Lane uses CUDA's intrinsics (engine.cu); the tests have one that runs on the host. A block takes
// tiles of kTile elements; a tile's sum has one order whatever the number of blocks, so sums have the same
// bits on any device.

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

/// The state of a selection, in device memory. Initially all 0.
struct Progress {
  std::uint32_t counts[kDigits][kMaxBins];
  std::uint32_t greatest;   // magnitude of the largest finite element
  std::uint32_t broken;     // infinities and NaN
  double mean;              // of the finite elements' magnitudes
  std::uint32_t key;        // the known bits of the wanted magnitude
  std::uint32_t rank;       // its rank among elements that share these bits, from 1
  std::uint32_t as_top_k;   // exact selection, whatever was requested
  std::uint32_t floor;      // candidates reach it
  std::uint32_t is_direct;  // too many candidates; later passes read all elements again
  std::uint32_t candidates;
  Brackets bracket;
  std::uint32_t surely;  // number of elements that reach bracket.surely
  std::uint32_t maybe;   // number of elements that reach only bracket.maybe
  std::uint32_t from;    // of these: the first to keep,
  std::uint32_t wanted;  // and how many
  std::uint32_t kept;
  std::uint32_t next_tile[2];  // of each compaction
  std::uint32_t first_bad;     // 1 + position of the first wrong index, counted down from ~0; 0: none
};

/// The input of later passes: the candidates, or all elements if there are too many candidates.
struct Choice {
  const Progress* progress;  // nullptr: always `all`
  Floats all;
  const float* values;
  const std::uint32_t* indexes;

  FUSEWISE_DEVICE bool is_direct() const { return progress == nullptr || progress->is_direct != 0; }
  FUSEWISE_DEVICE Floats floats() const {
    return is_direct() ? all : Floats{values, progress->candidates, true};
  }
  FUSEWISE_DEVICE const std::uint32_t* places() const { return is_direct() ? nullptr : indexes; }
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

/// A histogram in shared memory with several copies by lane, so that increments of one bin by neighbours go
/// to different banks.
template <std::uint32_t kBins>
struct Histogram {
  static constexpr unsigned kCopies = 4;
  std::uint32_t counts[kBins * kCopies];

  template <typename Lane>
  FUSEWISE_DEVICE void clear(const Lane& lane) {
    for (std::uint32_t i = lane.thread(); i < kBins * kCopies; i += kThreads) counts[i] = 0;
  }
  template <typename Lane>
  FUSEWISE_DEVICE void add(const Lane& lane, std::uint32_t bin) {
    lane.add(&counts[bin * kCopies + lane.thread() % kCopies], 1U);
  }
  template <typename Lane>
  FUSEWISE_DEVICE void flush(const Lane& lane, std::uint32_t* to) const {
    for (std::uint32_t bin = lane.thread(); bin < kBins; bin += kThreads) {
      std::uint32_t count = 0;
      for (unsigned copy = 0; copy < kCopies; ++copy) count += counts[bin * kCopies + copy];
      if (count != 0) lane.add(to + bin, count);
    }
  }
};

/// The first pass: counts of the first digit, and the sums for a mean of |x|.
struct Survey {
  Floats x;
  Progress* progress;
  double* tile_sums;

  struct Shared {
    Histogram<kMaxBins> histogram;
    double warps[1][kWarps];
    std::uint32_t greatest;
  };

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    shared.histogram.clear(lane);
    if (lane.thread() == 0) shared.greatest = 0;
    lane.sync();
    std::uint32_t greatest = 0;
    for (std::uint32_t tile = lane.block(); tile < tiles_of(x.count); tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      double sum[1] = {0};
      load.for_each([&](float each) {
        const std::uint32_t key = magnitude_of(each);
        shared.histogram.add(lane, digit_at(0).of(key));
        if (key >= kInfinityBits) return;
        sum[0] += size_of(each);
        greatest = key > greatest ? key : greatest;
      });
      sum_block(lane, sum, shared.warps);
      if (lane.thread() == 0) tile_sums[tile] = sum[0];
    }
    lane.raise(&shared.greatest, greatest);
    lane.sync();
    if (lane.thread() == 0) lane.raise(&progress->greatest, shared.greatest);
    shared.histogram.flush(lane, progress->counts[0]);
  }
};

/// Sums the sums of kTile tiles each, for `kinds` rows of them, so that few remain.
struct SumTiles {
  const double* tile_sums;
  double* sums;
  std::uint32_t tiles;
  std::uint32_t kinds;

  struct Shared {
    double warps[1][kWarps];
  };

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const std::uint32_t groups = tiles_of(tiles);
    for (std::uint32_t at = lane.block(); at < groups * kinds; at += lane.blocks()) {
      const double* row = tile_sums + std::uint64_t{at / groups} * tiles;
      const std::uint32_t from = at % groups * kTile;
      double sum[1] = {0};
      FUSEWISE_UNROLL
      for (unsigned r = 0; r < kTile / kThreads; ++r) {
        const std::uint32_t i = from + r * kThreads + lane.thread();
        sum[0] += i < tiles ? row[i] : 0;
      }
      sum_block(lane, sum, shared.warps);
      if (lane.thread() == 0) sums[at] = sum[0];
    }
  }
};

FUSEWISE_DEVICE inline double sum_in_order(const double* sums, std::uint32_t count) {
  double sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) sum += sums[i];
  return sum;
}

/// Finds the bin, from the last downwards, that contains the element of a rank. Run by thread 0, on sums that
/// the block prepares.
struct BinFinder {
  static constexpr unsigned kGroups = 16;
  std::uint32_t threads[kThreads];
  std::uint32_t groups[kGroups];

  template <typename Lane>
  FUSEWISE_DEVICE void prepare(const Lane& lane, const std::uint32_t* counts, std::uint32_t bins) {
    const std::uint32_t each = bins / kThreads;
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < each; ++i) sum += counts[lane.thread() * each + i];
    threads[lane.thread()] = sum;
    lane.sync();
    if (lane.thread() < kGroups) {
      sum = 0;
      for (unsigned i = 0; i < kThreads / kGroups; ++i)
        sum += threads[lane.thread() * (kThreads / kGroups) + i];
      groups[lane.thread()] = sum;
    }
    lane.sync();
  }

  /// Returns the last of `width` counts for which it and the later ones hold `rank`, which is replaced by the
  /// rank in that bin.
  FUSEWISE_DEVICE static std::uint32_t descend(const std::uint32_t* counts, std::uint32_t width,
                                               std::uint32_t& rank) {
    std::uint32_t at = width - 1;
    for (; at > 0 && counts[at] < rank; --at) rank -= counts[at];
    return at;
  }

  FUSEWISE_DEVICE std::uint32_t find(const std::uint32_t* counts, std::uint32_t bins,
                                     std::uint32_t& rank) const {
    const std::uint32_t group = descend(groups, kGroups, rank);
    constexpr std::uint32_t kPerGroup = kThreads / kGroups;
    const std::uint32_t first_thread = group * kPerGroup;
    const std::uint32_t thread = first_thread + descend(threads + first_thread, kPerGroup, rank);
    const std::uint32_t each = bins / kThreads;
    const std::uint32_t first_bin = thread * each;
    return first_bin + descend(counts + first_bin, each, rank);
  }

  /// Returns the number of elements in a bin and those after it.
  FUSEWISE_DEVICE std::uint32_t from(const std::uint32_t* counts, std::uint32_t bins,
                                     std::uint32_t bin) const {
    const std::uint32_t each = bins / kThreads;
    std::uint32_t thread = bin / each;
    std::uint32_t sum = 0;
    for (std::uint32_t i = bin; i < (thread + 1) * each; ++i) sum += counts[i];
    for (++thread; thread % (kThreads / kGroups) != 0; ++thread) sum += threads[thread];
    for (std::uint32_t group = thread / (kThreads / kGroups); group < kGroups; ++group) sum += groups[group];
    return sum;
  }
};

/// The request of a selection. `samplings` < 0: exactly the k largest; otherwise MSTopK.
struct Wanted {
  std::uint32_t k;
  int samplings;
  std::uint64_t seed;
};

/// After the survey: determines the first digit of the k-th (for MSTopK the next) largest element, and which
/// elements are candidates.
struct Settle {
  Progress* progress;
  const double* sums;
  std::uint32_t sum_count;
  std::uint32_t n;
  std::uint32_t capacity;  // of the candidates; 0: none are taken
  Wanted wanted;

  using Shared = BinFinder;

  FUSEWISE_DEVICE void set_mean(std::uint32_t reaching_infinity) const {
    const double sum = sum_in_order(sums, sum_count);
    const auto finite = static_cast<double>(n - reaching_infinity);
    const auto max = static_cast<double>(same_bits<float>(progress->greatest));
    const double mean = n == reaching_infinity ? 0 : sum / finite;
    progress->mean = mean < max ? mean : max;
    progress->broken = reaching_infinity;
  }

  FUSEWISE_DEVICE std::uint32_t floor_of(std::uint32_t key) const {
    if (progress->as_top_k != 0) return key;
    return bisected(progress->mean, same_bits<float>(progress->greatest), key, wanted.samplings).maybe;
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const std::uint32_t* counts = progress->counts[0];
    shared.prepare(lane, counts, kMaxBins);
    if (lane.thread() != 0) return;
    std::uint32_t broken = 0;
    for (std::uint32_t bin = digit_at(0).of(kInfinityBits); bin < kMaxBins; ++bin) broken += counts[bin];
    set_mean(broken);
    const bool is_exact = wanted.samplings < 0 || broken >= wanted.k;
    progress->as_top_k = is_exact ? 1 : 0;
    progress->rank = wanted.k + (is_exact ? 0 : 1);
    progress->key = shared.find(counts, kMaxBins, progress->rank) << digit_at(0).shift;
    progress->floor = floor_of(progress->key);
    const std::uint32_t reaching = shared.from(counts, kMaxBins, digit_at(0).of(progress->floor));
    progress->is_direct = reaching > capacity ? 1 : 0;
  }
};

/// Counts one digit of the elements that share the bits known so far.
struct CountDigits {
  Choice source;
  Progress* progress;
  unsigned which;

  using Shared = Histogram<kMaxBins>;

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const Floats x = source.floats();
    if (lane.block() >= tiles_of(x.count)) return;
    shared.clear(lane);
    lane.sync();
    const Digit digit = digit_at(which);
    const std::uint32_t prefix = digit.prefix(progress->key);
    for (std::uint32_t tile = lane.block(); tile < tiles_of(x.count); tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      load.for_each([&](float each) {
        const std::uint32_t key = magnitude_of(each);
        if (digit.prefix(key) == prefix) shared.add(lane, digit.of(key));
      });
    }
    lane.sync();
    shared.flush(lane, progress->counts[which]);
  }
};

/// Chooses a digit from its counts; after the last digit, decides what to keep.
struct ChooseDigit {
  Progress* progress;
  unsigned which;
  std::uint32_t first_rank;  // rank before the first digit; 0: already set
  bool is_threshold;         // all that reach the element of this rank are kept
  Wanted wanted;

  using Shared = BinFinder;

  FUSEWISE_DEVICE void set_bracket() const {
    const std::uint32_t key = progress->key;
    if (is_threshold) {
      progress->bracket = {key, key};
    } else if (progress->as_top_k != 0) {
      progress->bracket = {key + 1, key};
      progress->wanted = progress->rank;  // ties: those with the lowest indexes
    } else {
      progress->bracket =
          bisected(progress->mean, same_bits<float>(progress->greatest), key, wanted.samplings);
    }
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    const Digit digit = digit_at(which);
    const std::uint32_t* counts = progress->counts[which];
    shared.prepare(lane, counts, 1U << digit.bits);
    if (lane.thread() != 0) return;
    std::uint32_t rank = first_rank != 0 ? first_rank : progress->rank;
    progress->key |= shared.find(counts, 1U << digit.bits, rank) << digit.shift;
    progress->rank = rank;
    if (which + 1 == kDigits) set_bracket();
  }
};

/// Counts the elements that reach each bound; only for MSTopK.
struct CountBrackets {
  Choice source;
  Progress* progress;

  struct Shared {
    std::uint32_t surely;
    std::uint32_t maybe;
  };

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& shared) const {
    if (progress->as_top_k != 0) return;
    const Floats x = source.floats();
    const Brackets bracket = progress->bracket;
    if (lane.thread() == 0) shared = {0, 0};
    lane.sync();
    std::uint32_t surely = 0;
    std::uint32_t reaching = 0;
    for (std::uint32_t tile = lane.block(); tile < tiles_of(x.count); tile += lane.blocks()) {
      TileLoad load;
      load.load(x, tile, lane.thread());
      load.for_each([&](float each) {
        const std::uint32_t key = magnitude_of(each);
        surely += key >= bracket.surely ? 1U : 0U;
        reaching += key >= bracket.maybe ? 1U : 0U;
      });
    }
    if (reaching != 0) {
      lane.add(&shared.surely, surely);
      lane.add(&shared.maybe, reaching - surely);
    }
    lane.sync();
    if (lane.thread() == 0) {
      lane.add(&progress->surely, shared.surely);
      lane.add(&progress->maybe, shared.maybe);
    }
  }
};

/// Chooses which of the optional elements fill up to k.
struct DrawWindow {
  Progress* progress;
  Wanted wanted;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    if (lane.thread() != 0 || progress->as_top_k != 0) return;
    progress->wanted = wanted.k - progress->surely;
    const std::uint64_t places = std::uint64_t{progress->maybe} - progress->wanted + 1;
    progress->from = static_cast<std::uint32_t>(hash_of(wanted.seed) % places);
  }
};

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

/// DGC's sample: x at random positions.
struct Sample {
  const float* x;
  float* sample;
  std::uint32_t n;
  std::uint32_t samples;
  std::uint64_t seed;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::uint32_t step = lane.blocks() * kThreads;
    for (std::uint32_t i = lane.block() * kThreads + lane.thread(); i < samples; i += step)
      sample[i] = x[hash_of(seed, i) % n];
  }
};

/// Floyd's sampling, all steps in parallel. Step s samples c(s) from 0 to last(s) = n - k + s, and takes
/// last(s) instead if c(s) was taken before. After each step c(s) has been taken in either case; so it was
/// taken before if an earlier step sampled it, or if it is the last(t) of an earlier step t that took it.
struct Floyd {
  std::uint32_t n;
  std::uint32_t k;
  std::uint64_t seed;
  std::uint64_t*
      table;  // open addressing: a sampled number (high) and the first step that sampled it (low); ~0: empty
  std::uint32_t slots;  // a power of two, more than k

  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  FUSEWISE_DEVICE std::uint32_t last(std::uint32_t step) const { return n - k + step; }
  FUSEWISE_DEVICE std::uint32_t sampled(std::uint32_t step) const {
    return static_cast<std::uint32_t>(hash_of(seed, last(step)) % (std::uint64_t{last(step)} + 1));
  }
  FUSEWISE_DEVICE std::uint32_t slot_of(std::uint32_t number) const {
    return static_cast<std::uint32_t>(mixed(number)) & (slots - 1);
  }

  /// The lowest step wins, whatever the order.
  template <typename Lane>
  FUSEWISE_DEVICE void insert(const Lane& lane, std::uint32_t step) const {
    const std::uint32_t number = sampled(step);
    const std::uint64_t word = std::uint64_t{number} << 32U | step;
    for (std::uint32_t at = slot_of(number);; at = (at + 1) & (slots - 1)) {
      const std::uint64_t there = lane.swap_if(table + at, kEmpty, word);
      if (there == kEmpty) return;
      if (there >> 32U != number) continue;
      lane.lower(table + at, word);
      return;
    }
  }

  FUSEWISE_DEVICE std::uint32_t first_step(std::uint32_t number) const {
    std::uint32_t at = slot_of(number);
    while (table[at] >> 32U != number) at = (at + 1) & (slots - 1);
    return static_cast<std::uint32_t>(table[at]);
  }

  FUSEWISE_DEVICE bool takes_last(std::uint32_t step) const {
    for (;;) {
      const std::uint32_t number = sampled(step);
      if (first_step(number) < step) return true;
      if (number < n - k || number == last(step)) return false;
      step = number - (n - k);
    }
  }
};

struct FillTable {
  Floyd floyd;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::uint32_t step = lane.blocks() * kThreads;
    for (std::uint32_t i = lane.block() * kThreads + lane.thread(); i < floyd.k; i += step)
      floyd.insert(lane, i);
  }
};

struct MarkSampled {
  Floyd floyd;
  std::uint32_t* bits;

  struct Shared {};

  template <typename Lane>
  FUSEWISE_DEVICE void mark(const Lane& lane, std::uint32_t number) const {
    lane.set(bits + number / 32, 1U << number % 32);
  }

  template <typename Lane>
  FUSEWISE_DEVICE void operator()(const Lane& lane, Shared& /*shared*/) const {
    const std::uint32_t step = lane.blocks() * kThreads;
    for (std::uint32_t i = lane.block() * kThreads + lane.thread(); i < floyd.k; i += step) {
      mark(lane, floyd.sampled(i));
      if (floyd.takes_last(i)) mark(lane, floyd.last(i));
    }
  }
};

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
