// Stateless random numbers: a value is a function of a seed and of its purpose, with the same bits on any
// machine, compiler and build. The functions underneath use only + - * /, square roots and powers of two, in
// a fixed order, because the standard library's exp and log may differ in their last bits.

#pragma once

#include <cstdint>
#include <span>

namespace sim {

/// A bijective hash that spreads every bit of `word` over all others: the finaliser of SplitMix64 (Steele,
/// Lea and Flood 2014).
constexpr std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

/// hash(seed, a, b) is hash_on(hash(seed, a), b).
template <typename... Words>
constexpr std::uint64_t hash_on(std::uint64_t state, Words... words) {
  ((state = mix((state ^ static_cast<std::uint64_t>(words)) + kGolden)), ...);
  return state;
}

/// Returns 64 independent bits for each combination of a seed and a purpose (worker, iteration, task, ...).
/// Two combinations that differ in exactly one word never give the same bits.
template <typename... Words>
constexpr std::uint64_t hash(std::uint64_t seed, Words... words) {
  return hash_on(mix(seed + kGolden), words...);
}

/// From 2^-53 to 1 - 2^-53: never 0, never 1, symmetric about 1/2.
double uniform(std::uint64_t bits);

/// The largest absolute value of standard_normal().
constexpr double kFurthestNormal = 8.3;

/// Mean 0, standard deviation 1.
double standard_normal(std::uint64_t bits);

/// The expected largest of `count` standard normal variates, to three decimals.
double expected_largest_normal(std::int64_t count);

/// exp(sigma z - sigma^2 / 2): the mean is 1, and sigma is the standard deviation of the logarithm.
double lognormal_mean_one(std::uint64_t bits, double sigma);

/// The largest value of lognormal_mean_one(); at least 1.
double longest_lognormal(double sigma);

/// Computes the same bits for each of `bits`, several times faster; `factors` has the same length. Requires
/// sigma <= 10.
void lognormal_mean_one(std::span<const std::uint64_t> bits, double sigma, std::span<double> factors);

/// Within 1e-15 of the true value, relative; 0 under the smallest double, infinite over the largest.
double portable_exp(double x);

/// Within 1e-15 of the true value, relative. Requires 0 < x < infinity.
double portable_log(double x);

/// The density of the standard normal distribution.
double normal_density(double z);

/// The probability that a standard normal variate is below z; within 2e-15, absolute.
double normal_below(double z);

}  // namespace sim
