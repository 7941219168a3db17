// Random numbers without a state: a draw is a function of a seed and of what it is for, and has the same bits
// on any machine, compiler and build. The functions underneath use only + - * /, square roots and powers of
// two, in a fixed order, because the standard library's exp and log may differ in their last bits.

#pragma once

#include <cstdint>
#include <span>

namespace sim {

/// Spreads every bit of `word` over all others; one to one. The finaliser of SplitMix64 (Steele, Lea and
/// Flood 2014).
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

/// 64 independent bits for each combination of a seed and what the draw is for (worker, iteration, task,
/// ...). Two that differ in one word never give the same bits.
template <typename... Words>
constexpr std::uint64_t hash(std::uint64_t seed, Words... words) {
  return hash_on(mix(seed + kGolden), words...);
}

/// From 2^-53 to 1 - 2^-53: never 0, never 1, symmetric about 1/2.
double uniform(std::uint64_t bits);

/// No standard_normal() is further from 0.
constexpr double kFurthestNormal = 8.3;

/// Mean 0, standard deviation 1.
double standard_normal(std::uint64_t bits);

/// exp(sigma z - sigma^2 / 2): mean 1, and sigma is the standard deviation of the logarithm.
double lognormal_mean_one(std::uint64_t bits, double sigma);

/// No lognormal_mean_one() is larger; at least 1.
double longest_lognormal(double sigma);

/// The same for each of `bits`, to the last bit and several times as quick; `factors` is as long. Asks for
/// a sigma of at most 10.
void lognormal_mean_one(std::span<const std::uint64_t> bits, double sigma, std::span<double> factors);

/// Within 1e-15 of the true value, relative; 0 under the smallest double, infinite over the largest.
double portable_exp(double x);

/// Within 1e-15 of the true value, relative. Asks for 0 < x < infinity.
double portable_log(double x);

/// The density of the standard normal distribution.
double normal_density(double z);

/// The chance that a standard normal draw is below z; within 2e-15, absolute.
double normal_below(double z);

}  // namespace sim
