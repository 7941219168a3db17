// Finds the k-th largest magnitude, digit by digit, or MSTopK's brackets around it.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/kernels/tiles.hpp"

namespace compression::cuda {

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

}  // namespace compression::cuda
