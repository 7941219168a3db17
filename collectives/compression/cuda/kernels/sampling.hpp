// Random positions: DGC's sample, and random-k's elements without repetition.

#pragma once

#include <cstdint>

#include "collectives/compression/cuda/kernels/tiles.hpp"

namespace compression::cuda {

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

}  // namespace compression::cuda
