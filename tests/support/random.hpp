// Seeded random numbers for tests: the raw 32-bit output of std::mt19937 and nothing else of <random>, so
// that an instance is the same with any standard library.

#pragma once

#include <cstdint>
#include <random>

#include "tests/support/sanitized.hpp"

namespace support {

/// The number of seeds of a slow property: fewer in a sanitized build.
constexpr std::uint32_t seeds(std::uint32_t count) { return kSanitized ? count / 20 + 1 : count; }

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  /// 0 to count - 1
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(engine_()) % count; }
  std::int64_t between(std::int64_t min, std::int64_t max) {
    return min + static_cast<std::int64_t>(below(static_cast<std::uint32_t>(max - min + 1)));
  }
  bool one_in(std::uint32_t count) { return below(count) == 0; }

 private:
  std::mt19937 engine_;
};

}  // namespace support
