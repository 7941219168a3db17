// The order in which a polynomial is evaluated is part of the result.

#include "sim/draws.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sim/wide.hpp"

namespace sim {
namespace {

// ln 2 in two parts: multiples of the first part by integers up to 2^11 are exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
/// Added to a double under 2^51, it rounds to an integer and leaves that integer in the lowest bits.
constexpr double kToWhole = 0x1.8p52;
constexpr unsigned kMantissaBits = 52;
constexpr std::uint64_t kOne = 0x3ff0000000000000U;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

/// coefficients[first] + coefficients[first + 2] y + ..., by Horner's rule.
template <std::size_t kCount>
[[gnu::always_inline]] inline double every_other(const std::array<double, kCount>& coefficients,
                                                 std::size_t first, double y) {
  std::size_t i = kCount - 1 - (kCount - 1 - first) % 2;
  double sum = coefficients[i];
  while (i > first) sum = sum * y + coefficients[i -= 2];
  return sum;
}

/// coefficients[0] + coefficients[1] x + ...: even and odd powers are evaluated separately, which halves the
/// chain of dependent operations.
template <std::size_t kCount>
[[gnu::always_inline]] inline double polynomial(const std::array<double, kCount>& coefficients, double x) {
  return every_other(coefficients, 0, x * x) + x * every_other(coefficients, 1, x * x);
}

/// The normal quantile as a ratio of two polynomials of degree 7.
struct Ratio {
  std::array<double, 8> above;
  std::array<double, 8> below;

  [[gnu::always_inline]] double at(double x) const { return polynomial(above, x) / polynomial(below, x); }
};

// Wichura, "Algorithm AS 241: The percentage points of the normal distribution" (1988), PPND16.
constexpr Ratio kCentre = {
    {3.3871328727963666080, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
constexpr Ratio kTail = {
    {1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9}};
constexpr Ratio kFarTail = {{6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
                             2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7},
                            {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                             1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                             1.42151175831644588870e-7, 2.04426310338993978564e-15}};

bool is_central(double offset) { return offset >= -0.425 && offset <= 0.425; }

[[gnu::always_inline]] inline double central_quantile(double offset) {
  return offset * kCentre.at(0.180625 - offset * offset);
}

/// 1, 1/1!, 1/2!, ...
template <std::size_t kCount>
constexpr std::array<double, kCount> inverse_factorials() {
  std::array<double, kCount> out{1.0};
  double factorial = 1;
  for (std::size_t i = 1; i < kCount; ++i) {
    factorial *= static_cast<double>(i);  // exact up to 18!
    out.at(i) = 1 / factorial;
  }
  return out;
}

/// 1, 1/3, 1/5, ...
template <std::size_t kCount>
constexpr std::array<double, kCount> inverse_odds() {
  std::array<double, kCount> out{};
  for (std::size_t i = 0; i < kCount; ++i) out.at(i) = 1 / static_cast<double>(2 * i + 1);
  return out;
}

constexpr std::array<double, 14> kExpTerms = inverse_factorials<14>();
constexpr std::array<double, 12> kLogTerms = inverse_odds<12>();

/// exp(x) = 2^power x factor; `power` is an integer.
struct ExpParts {
  double power = 0;
  double factor = 0;
};

[[gnu::always_inline]] inline ExpParts exp_parts(double x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; the omitted terms are under 1e-17.
  const double n = (x * kInverseLn2 + kToWhole) - kToWhole;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  return {.power = n, .factor = polynomial(kExpTerms, r)};
}

/// portable_exp if neither x nor the result is far from 0 or 1: 2^n is assembled from its bits.
[[gnu::always_inline]] inline double near_exp(double x) {
  const ExpParts parts = exp_parts(x);
  constexpr double kBias = 1023;
  const auto exponent = std::bit_cast<std::uint64_t>(parts.power + kBias + kToWhole);
  return parts.factor * std::bit_cast<double>(exponent << kMantissaBits);
}

/// Returns the logarithm of m 2^exponent, 1/2 <= m < 1.
[[gnu::always_inline]] inline double log_of(double m, double exponent) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  const bool is_small = m < kSqrtHalf;
  const double near_one = is_small ? 2 * m : m;
  const double power = is_small ? exponent - 1 : exponent;
  // log m = 2 atanh s with |s| <= 0.172; the omitted terms are under 1e-18 of the first.
  const double s = (near_one - 1) / (near_one + 1);
  const double log_m = 2 * s * polynomial(kLogTerms, s * s);
  return power * kLn2High + (log_m + power * kLn2Low);
}

/// Returns portable_log of a normal number.
[[gnu::always_inline]] inline double near_log(double x) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << kMantissaBits) - 1;
  constexpr std::uint64_t kHalf = 0x3fe0000000000000U;
  constexpr double kBiasOfHalf = 1022;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // Puts the exponent's bits into the lowest bits of a double that is large enough to hold them.
  const auto raw = std::bit_cast<double>((bits >> kMantissaBits) | std::bit_cast<std::uint64_t>(0x1p52));
  const double exponent = raw - 0x1p52 - kBiasOfHalf;
  return log_of(std::bit_cast<double>((bits & kMantissa) | kHalf), exponent);
}

/// uniform() without a conversion from integers.
[[gnu::always_inline]] inline double uniform_by_bits(std::uint64_t bits) {
  const auto from_one = std::bit_cast<double>(kOne | (bits >> (64 - kMantissaBits)));
  return (from_one - 1) + 0x1p-53;
}

/// Returns the z below which a standard normal variate lies with probability `chance`.
double normal_quantile(double chance) {
  const double offset = chance - 0.5;
  if (is_central(offset)) return central_quantile(offset);
  const double outside = offset < 0 ? chance : 1 - chance;
  const double r = std::sqrt(-near_log(outside));
  const double z = r <= 5 ? kTail.at(r - 1.6) : kFarTail.at(r - 5);
  return offset < 0 ? -z : z;
}

constexpr std::size_t kBlock = 256;  // fits the first-level cache

/// Computes the values for those of `bits` that lie outside the central region.
[[gnu::always_inline]] inline void draw_tails(std::span<const std::uint64_t> bits,
                                              std::array<double, kBlock>& z) {
  // Not initialised, which would take longer than a few draws.
  std::array<std::uint16_t, kBlock> at;
  std::array<double, kBlock> offsets;
  std::array<double, kBlock> r;
  std::size_t count = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    offsets[count] = uniform_by_bits(bits[i]) - 0.5;
    at[count] = static_cast<std::uint16_t>(i);
    if (!is_central(offsets[count])) ++count;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double chance = offsets[i] + 0.5;  // exact
    r[i] = std::sqrt(-near_log(offsets[i] < 0 ? chance : 1 - chance));
  }
  std::array<double, kBlock> tail;
  for (std::size_t i = 0; i < count; ++i) tail[i] = kTail.at(r[i] - 1.6);
  for (std::size_t i = 0; i < count; ++i) {
    const double outside = r[i] <= 5 ? tail[i] : kFarTail.at(r[i] - 5);
    z[at[i]] = offsets[i] < 0 ? -outside : outside;
  }
}

/// Loops without branches, which compilers vectorize; values outside the central region are computed again.
FUSEWISE_WIDE void draw_block(const std::uint64_t* bits, double sigma, double* factors, std::size_t count) {
  std::array<double, kBlock> z;
  for (std::size_t i = 0; i < count; ++i) z[i] = central_quantile(uniform_by_bits(bits[i]) - 0.5);
  draw_tails({bits, count}, z);
  for (std::size_t i = 0; i < count; ++i) factors[i] = near_exp(sigma * z[i] - sigma * sigma / 2);
}

}  // namespace

double uniform(std::uint64_t bits) {
  // 52 bits and a half: 53 significant bits, so nothing is rounded, in particular not to 1.
  return (static_cast<double>(bits >> 12U) + 0.5) * 0x1p-52;
}

double standard_normal(std::uint64_t bits) { return normal_quantile(uniform_by_bits(bits)); }

/// The largest lies below x with probability Phi(x)^count, so it is the quantile of u^(1/count) with u
/// uniform.
double expected_largest_normal(std::int64_t count) {
  constexpr int kPoints = 4096;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double u = (i + 0.5) / kPoints;
    sum += normal_quantile(portable_exp(portable_log(u) / static_cast<double>(count)));
  }
  return sum / kPoints;
}

double lognormal_mean_one(std::uint64_t bits, double sigma) {
  const double x = sigma * standard_normal(bits) - sigma * sigma / 2;
  constexpr double kFar = 700;
  return x > -kFar && x < kFar ? near_exp(x) : portable_exp(x);
}

double longest_lognormal(double sigma) {
  return std::max(1.0, portable_exp(sigma * kFurthestNormal - sigma * sigma / 2));
}

void lognormal_mean_one(std::span<const std::uint64_t> bits, double sigma, std::span<double> factors) {
  assert(bits.size() == factors.size() && sigma <= 10);
  for (std::size_t from = 0; from < bits.size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, bits.size() - from);
    draw_block(bits.data() + from, sigma, factors.data() + from, count);
  }
}

double portable_exp(double x) {
  constexpr double kMin = -745.2;  // half the smallest double; anything below is 0
  constexpr double kMax = 709.79;
  if (x < kMin) return 0;
  if (x > kMax) return std::numeric_limits<double>::infinity();
  const ExpParts parts = exp_parts(x);
  return std::ldexp(parts.factor, static_cast<int>(parts.power));
}

double portable_log(double x) {
  assert(x > 0);
  int exponent = 0;
  const double m = std::frexp(x, &exponent);
  return log_of(m, exponent);
}

double normal_density(double z) { return kInverseSqrtTwoPi * portable_exp(-z * z / 2); }

double normal_below(double z) {
  constexpr double kFar = 8.3;  // beyond, the probability is within 1e-16 of 0 or 1
  if (z <= -kFar) return 0;
  if (z >= kFar) return 1;
  // 1/2 + density (z + z^3/3 + z^5/(3 5) + ...) (Marsaglia 2004): the terms do not cancel each other.
  double term = z;
  double sum = z;
  for (int odd = 3; term * term > sum * sum * 1e-36; odd += 2) {
    term *= z * z / odd;
    sum += term;
  }
  return 0.5 + normal_density(z) * sum;
}

}  // namespace sim
