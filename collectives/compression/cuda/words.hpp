// The functions of bits.hpp, draws.hpp and selectors.cpp for single words, for host and device. C++17 without
// CUDA headers, so that nvcc and a host compiler read the same lines; the tests compare both versions.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define FUSEWISE_BOTH __host__ __device__
#define FUSEWISE_DEVICE __device__
#define FUSEWISE_UNROLL _Pragma("unroll")
#else
#define FUSEWISE_BOTH
#define FUSEWISE_DEVICE
#define FUSEWISE_UNROLL
#endif

namespace compression::cuda {

template <typename To, typename From>
FUSEWISE_BOTH inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

constexpr std::uint32_t kInfinityBits = 0x7f800000U;

FUSEWISE_BOTH inline std::uint32_t magnitude_of(float x) { return same_bits<std::uint32_t>(x) & 0x7fffffffU; }

/// x < 0
FUSEWISE_BOTH inline bool is_below_zero(float x) {
  return same_bits<std::uint32_t>(x) - 0x80000001U <= 0x7f7fffffU;
}

FUSEWISE_BOTH inline double size_of(float x) {
  return static_cast<double>(same_bits<float>(magnitude_of(x)));
}

FUSEWISE_BOTH inline float without_payload(float x) {
  return magnitude_of(x) > kInfinityBits ? same_bits<float>(0x7fc00000U) : x;
}

FUSEWISE_BOTH inline std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

/// sim::hash(seed)
FUSEWISE_BOTH inline std::uint64_t hash_of(std::uint64_t seed) { return mixed(seed + 0x9e3779b97f4a7c15U); }

/// sim::hash(seed, word)
FUSEWISE_BOTH inline std::uint64_t hash_of(std::uint64_t seed, std::uint64_t word) {
  return mixed((hash_of(seed) ^ word) + 0x9e3779b97f4a7c15U);
}

/// A digit of a magnitude, counted from the top, for a radix selection.
struct Digit {
  std::uint32_t shift;
  std::uint32_t bits;

  FUSEWISE_BOTH std::uint32_t of(std::uint32_t key) const { return (key >> shift) & ((1U << bits) - 1); }
  FUSEWISE_BOTH std::uint32_t prefix(std::uint32_t key) const { return key >> shift >> bits; }
};

constexpr unsigned kDigits = 3;
constexpr std::uint32_t kMaxBins = 1U << 11U;

/// 11, 10 and 10 bits: without the sign, the first is the exponent and the three leading bits after it.
FUSEWISE_BOTH inline Digit digit_at(unsigned which) {
  return which == 0 ? Digit{20, 11} : which == 1 ? Digit{10, 10} : Digit{0, 10};
}

/// Elements that reach `surely` are kept, those that do not reach `maybe` are not.
struct Brackets {
  std::uint32_t surely;
  std::uint32_t maybe;
};

/// MSTopK's samplings, as in selectors.cpp. The result's `maybe` is at most `next_greatest` and grows with
/// it.
FUSEWISE_BOTH inline Brackets bisected(double mean, float greatest, std::uint32_t next_greatest,
                                       int samplings) {
  Brackets bracket = {kInfinityBits, 0};
  double low = 0;
  double high = 1;
  for (int i = 0; i < samplings; ++i) {
    const double ratio = low + (high - low) / 2;
    const double exact = mean + ratio * (static_cast<double>(greatest) - mean);
    const auto nearest = static_cast<float>(exact);
    const std::uint32_t threshold = magnitude_of(nearest) + (static_cast<double>(nearest) < exact ? 1U : 0U);
    const bool at_most_k = next_greatest < threshold;
    (at_most_k ? high : low) = ratio;
    (at_most_k ? bracket.surely : bracket.maybe) = threshold;
  }
  return bracket;
}

}  // namespace compression::cuda
