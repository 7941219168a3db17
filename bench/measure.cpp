#include "bench/measure.hpp"

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include <fmt/core.h>

namespace bench {

double reference_ms() {
  static const double known =
      measure(5, [] {
        std::mt19937 random(1);
        std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue;
        for (int i = 0; i < 2048; ++i) queue.push(random());
        for (int i = 0; i < 1'000'000; ++i) {
          const std::uint64_t now = queue.top();
          queue.pop();
          queue.push(now + random() % 4096);
        }
        if (queue.empty()) fmt::print("never\n");
      }).ms;
  return known;
}

void report(const std::string& what, const Measurement& result, const Bound& bound) {
  const double mb = static_cast<double>(result.peak_bytes) / 1e6;
  fmt::print("{:<80} {:>10.3f} ms  {:>7.3f} x reference  {:>8.2f} MB", what, result.ms,
             result.ms / reference_ms(), mb);
  if (bound.ms > 0) fmt::print("  bound {:g} ms{}", bound.ms, result.ms > bound.ms ? ", OVER" : "");
  if (bound.mb > 0) fmt::print("  bound {:g} MB{}", bound.mb, mb > bound.mb ? ", OVER" : "");
  fmt::print("\n");
}

}  // namespace bench
