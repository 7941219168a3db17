// What all kernels share: numbers of any type, sinks and dropout. C++17 without exceptions or containers, for
// the device and, in the tests, for the host.

#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "collectives/compression/cuda/words.hpp"
#include "profiler/layers/cuda/kernels.hpp"

namespace profiler::cuda {

template <typename T>
FUSEWISE_BOTH inline float number(const T& x) {
  return static_cast<float>(x);
}

template <typename T>
FUSEWISE_BOTH inline void add_to(T* to, float x) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, static_cast<T>(x));
#else
  *to = static_cast<T>(number(*to) + x);
#endif
}

/// Adds to two neighbours, the first at an even place. Adding halves in pairs is one instruction of a GPU,
/// and a single half is a loop that takes a hundred times as long where many threads add to one place.
template <typename T>
FUSEWISE_BOTH inline void add_pair_to(T* to, float first, float second) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    atomicAdd(to, static_cast<T>(first));
    atomicAdd(to + 1, static_cast<T>(second));
  } else if constexpr (std::is_same_v<T, __half>) {
    atomicAdd(reinterpret_cast<__half2*>(to), __floats2half2_rn(first, second));
  } else {
    atomicAdd(reinterpret_cast<__nv_bfloat162*>(to), __floats2bfloat162_rn(first, second));
  }
#else
  add_to(to, first);
  add_to(to + 1, second);
#endif
}

/// a / b; in 32 bits where both fit, which takes a GPU a fraction of the time.
FUSEWISE_BOTH inline std::int64_t divided(std::int64_t a, std::int64_t b) {
  constexpr unsigned kNarrow = 32;
  if ((static_cast<std::uint64_t>(a | b) >> kNarrow) != 0) return a / b;
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}

/// A sink with a static type.
template <typename T>
struct Out {
  T* data;
  bool add;

  FUSEWISE_BOTH void put(std::int64_t i, float x) const {
    data[i] = static_cast<T>(add ? number(data[i]) + x : x);
  }
};

/// Returns the dropout factor of element i: random numbers of 16 bits, four from one word.
FUSEWISE_BOTH inline float factor_of(const Drop& drop, std::int64_t i) {
  const std::uint64_t bits = compression::cuda::hash_of(drop.seed, static_cast<std::uint64_t>(i / 4));
  const std::uint64_t draw = (bits >> (16U * static_cast<unsigned>(i % 4))) & 0xffffU;
  return draw < drop.below ? 0.0F : drop.kept;
}

}  // namespace profiler::cuda
