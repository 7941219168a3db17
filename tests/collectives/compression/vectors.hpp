// Vectors to compress: gradient-like ones and special cases.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "collectives/compression/sparse_vector.hpp"
#include "sim/draws.hpp"
#include "tests/support/random.hpp"

namespace support {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// The bits, which compare NaN equal and distinguish -0 from 0.
inline std::vector<std::uint32_t> bits_of(std::span<const float> x) {
  std::vector<std::uint32_t> out;
  for (const float each : x) out.push_back(bits_of(each));
  return out;
}

inline bool same(const compression::SparseVector& a, const compression::SparseVector& b) {
  return a.indexes == b.indexes && bits_of(a.values) == bits_of(b.values);
}

/// The kind of elements in vectors(); those from kFiniteKinds on contain infinities and NaN.
inline constexpr std::uint32_t kFiniteKinds = 8;
inline constexpr std::uint32_t kKinds = 11;

inline float element(Random& random, std::uint32_t kind, std::size_t i) {
  const auto word = std::uint64_t{random.below(1U << 31U)} << 32U | random.below(1U << 31U);
  const auto normal = static_cast<float>(sim::standard_normal(sim::mix(word)));
  const auto sign = random.one_in(2) ? 1.0F : -1.0F;
  switch (kind) {
    case 0: return normal * 1e-3F;
    case 1: return normal * static_cast<float>(1 + i / 100 % 7);   // layers of different scales
    case 2: return sign * static_cast<float>(random.below(4));     // ties, 0 and -0
    case 3: return sign * 0.25F;                                   // all of one magnitude
    case 4: return random.one_in(10) ? normal : sign * 0.0F;       // mostly zeros
    case 5: return sign * std::bit_cast<float>(random.below(40));  // denormals
    case 6: return normal * (random.one_in(50) ? 1e30F : 1e-30F);  // outliers
    case 7: return sign * std::numeric_limits<float>::max() * (normal * normal > 1 ? 1.0F : 0.5F);
    case 8: return random.one_in(30) ? sign * kInfinity : normal;
    case 9: return random.one_in(30) ? kNan : random.one_in(30) ? sign * kInfinity : normal;
    default: return std::bit_cast<float>(random.below(1U << 31U) << 1U | random.below(2));  // any bits
  }
}

inline std::vector<float> vector_of(Random& random, std::uint32_t kind, std::size_t elements) {
  std::vector<float> out(elements);
  for (std::size_t i = 0; i < elements; ++i) out[i] = element(random, kind, i);
  return out;
}

/// Returns a length from 0, 1, 2, ... to some thousands, depending on the seed.
inline std::size_t length_of(std::uint32_t seed, Random& random) {
  if (seed < 140) return seed / 2;
  return random.one_in(8) ? random.below(5000) : random.below(400);
}

}  // namespace support
