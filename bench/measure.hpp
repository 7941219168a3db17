// Times a piece of work and prints a line about it.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include "bench/alloc_counter.hpp"

namespace bench {

struct Measurement {
  double ms = 0;
  std::size_t peak_bytes = 0;  ///< allocated in addition to what was live before
};

/// Returns the best of several repetitions.
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

/// Reference task: a million pushes and pops on a priority queue of 2,048 entries, the inner loop of a
/// simulator. Measured on the first call.
double reference_ms();

/// Upper bounds of a measurement; 0: no bound.
struct Bound {
  double ms = 0;
  double mb = 0;
};

void report(const std::string& what, const Measurement& result, const Bound& bound = {});

}  // namespace bench
