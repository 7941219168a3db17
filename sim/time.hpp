// Simulated time: an integer count of picoseconds, so that sums are exact and runs compare equal.

#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace sim {

/// Covers 106 days; fine enough that rounding each of a ring's 4,094 steps stays within 1e-6.
using Time = std::chrono::duration<std::int64_t, std::pico>;

/// The longest time that from_us() accepts; a whole run must stay below it.
constexpr double kMaxUs = 9e12;

/// Rounds to the nearest picosecond, halves up. Requires 0 <= us <= kMaxUs.
inline Time from_us(double us) {
  constexpr double kPicosecondsPerUs = 1e6;
  const double exact = us * kPicosecondsPerUs;
  const auto whole = static_cast<std::int64_t>(exact);  // truncates; far cheaper than llround
  return Time(whole + (exact - static_cast<double>(whole) >= 0.5 ? 1 : 0));
}

inline double to_us(Time time) { return static_cast<double>(time.count()) / 1e6; }

}  // namespace sim
