// Times a piece of work and prints the line about it.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include "bench/alloc_counter.hpp"

namespace bench {

struct Measurement {
  double ms = 0;
  std::size_t peak_bytes = 0;  ///< allocated above what was live before
};

/// The best of so many repetitions.
template <typename Work>
Measurement measure(int repetitions, Work work) {
  using Clock = std::chrono::steady_clock;
  Measurement best;
  const std::size_t before = live_bytes();
  reset_peak();
  for (int i = 0; i < repetitions; ++i) {
    const auto start = Clock::now();
    work();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    best.ms = i == 0 ? ms : std::min(best.ms, ms);
  }
  best.peak_bytes = peak_bytes() - before;
  return best;
}

/// A million pushes and pops on a priority queue that holds 2,048: what a simulator's inner loop costs here.
/// Measured when first asked for.
double reference_ms();

/// What a measurement must not exceed; 0: no bound.
struct Bound {
  double ms = 0;
  double mb = 0;
};

void report(const std::string& what, const Measurement& result, const Bound& bound = {});

}  // namespace bench
