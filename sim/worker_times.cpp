#include "sim/worker_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>

#include "sim/draws.hpp"
#include "sim/wide.hpp"

namespace sim {

FUSEWISE_WIDE void hash_on(std::span<const std::uint64_t> states, std::uint64_t word,
                           std::span<std::uint64_t> bits) {
  assert(states.size() == bits.size());
  for (std::size_t i = 0; i < states.size(); ++i) bits[i] = hash_on(states[i], word);
}

FUSEWISE_WIDE Time add_scaled(double us, std::span<const double> factors, std::span<Time> times,
                              std::span<Time> sums) {
  assert(factors.size() <= kMaxAtOnce && times.size() == factors.size() && sums.size() == factors.size());
  // Added to a double under 2^51, this rounds to an integer, halves to even, and leaves it in the lowest
  // bits.
  constexpr double kToWhole = 0x1.8p52;
  constexpr double kPicosecondsPerUs = 1e6;
  Time sum{};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double exact = us * factors[i] * kPicosecondsPerUs;
    const double even = (exact + kToWhole) - kToWhole;
    const double whole = exact - even == 0.5 ? even + 1 : even;
    const Time added(std::bit_cast<std::int64_t>(whole + kToWhole) - std::bit_cast<std::int64_t>(kToWhole));
    times[i] += added;
    sums[i] += added;
    sum += added;
  }
  return sum;
}

FUSEWISE_WIDE Time add_waits(Time last, Time since, std::span<const Time> ready, std::span<Time> sums) {
  assert(ready.size() <= kMaxAtOnce && sums.size() == ready.size());
  Time sum{};
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const Time wait = last - std::max(since, ready[i]);
    sums[i] += wait;
    sum += wait;
  }
  return sum;
}

FUSEWISE_WIDE void raise(std::span<Time> out, std::span<const Time> times) {
  assert(out.size() == times.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], times[i]);
}

FUSEWISE_WIDE Time max_of(std::span<const Time> times) {
  constexpr std::size_t kLanes = 8;  // independent, so that none waits for the comparison before
  std::array<Time, kLanes> lanes;
  lanes.fill(times.front());
  std::size_t i = 0;
  for (; i + kLanes <= times.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], times[i + lane]);
  for (; i < times.size(); ++i) lanes[0] = std::max(lanes[0], times[i]);
  return *std::ranges::max_element(lanes);
}

}  // namespace sim
