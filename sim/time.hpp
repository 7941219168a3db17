// Simulated time: an integer count of picoseconds, so that sums are exact and runs compare equal.

#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <stdexcept>

namespace sim {

/// Covers 106 days; fine enough that rounding each of a ring's 4,094 steps stays within 1e-6.
using Time = std::chrono::duration<std::int64_t, std::pico>;

/// The longest time that from_us() and after() accept; a whole run must stay below it.
constexpr double kMaxUs = 9e12;
constexpr Time kMaxTime = Time(9'000'000'000'000'000'000);

/// Thrown when a time exceeds the range of the clock.
struct TooLong : std::runtime_error {
  explicit TooLong(double its_us) : std::runtime_error("longer than can be simulated"), us(its_us) {}
  double us;
};

/// Out of line, so that the checks cost hot loops one comparison each.
[[noreturn, gnu::cold, gnu::noinline]] inline void too_long(double us) { throw TooLong(us); }

inline double to_us(Time time) { return static_cast<double>(time.count()) / 1e6; }

/// Rounds to the nearest picosecond, halves up. Requires us >= 0. Throws TooLong.
inline Time from_us(double us) {
  if (!(us <= kMaxUs)) too_long(us);
  constexpr double kPicosecondsPerUs = 1e6;
  const double exact = us * kPicosecondsPerUs;
  const auto whole = static_cast<std::int64_t>(exact);  // truncates; far cheaper than llround
  return Time(whole + (exact - static_cast<double>(whole) >= 0.5 ? 1 : 0));
}

/// Returns at + more. Both are at most kMaxTime. Throws TooLong.
inline Time after(Time at, Time more) {
  if (more > kMaxTime - at) too_long(to_us(at) + to_us(more));
  return at + more;
}

/// Returns `at` + `us`, rounded once. Throws TooLong.
inline Time after(Time at, double us) {
  if (!(to_us(at) + us <= kMaxUs)) too_long(to_us(at) + us);
  return at + from_us(us);
}

/// A sum of times that may exceed the range of Time, such as the sum over all workers of a run.
class TotalTime {
 public:
  TotalTime& operator+=(Time more) {
    picoseconds_ += more.count();
    return *this;
  }
  TotalTime& operator+=(TotalTime more) {
    picoseconds_ += more.picoseconds_;
    return *this;
  }
  void add(Time each, std::size_t times) {
    picoseconds_ += static_cast<decltype(picoseconds_)>(each.count()) * static_cast<std::int64_t>(times);
  }
  double us() const { return static_cast<double>(picoseconds_) / 1e6; }
  auto operator<=>(const TotalTime&) const = default;

 private:
  __extension__ __int128 picoseconds_ = 0;
};

}  // namespace sim
