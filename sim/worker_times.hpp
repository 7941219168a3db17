// Loops over many workers at once.

#pragma once

#include <cstdint>
#include <span>

#include "sim/time.hpp"

namespace sim {

/// Computes hash_on(state, word) for each state. Both spans have the same length.
void hash_on(std::span<const std::uint64_t> states, std::uint64_t word, std::span<std::uint64_t> bits);

/// The longest time, and the largest number of workers, that the functions below take; sums of times do not
/// exceed 2^63 ps then.
constexpr double kMaxAtOnceUs = 2e9;
constexpr std::size_t kMaxAtOnce = 1024;

/// Adds from_us(us * factors[i]) to times[i] and to sums[i], and returns the sum of all that is added. No
/// addend may exceed kMaxAtOnceUs.
Time add_scaled(double us, std::span<const double> factors, std::span<Time> times, std::span<Time> sums);

/// Adds last - max(since, ready[i]) to sums[i], and returns the sum of all that is added. No addend may
/// exceed kMaxAtOnceUs.
Time add_waits(Time last, Time since, std::span<const Time> ready, std::span<Time> sums);

/// out[i] = max(out[i], times[i])
void raise(std::span<Time> out, std::span<const Time> times);

/// Requires at least one.
Time max_of(std::span<const Time> times);

}  // namespace sim
