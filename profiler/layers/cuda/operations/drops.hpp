// Dropout with the same random numbers as on the CPU.

#pragma once

#include <cstdint>

#include "profiler/layers/cuda/kernels.hpp"

namespace profiler::cuda {

/// Uses the CPU's random numbers of 16 bits.
inline Drop drop_of(std::uint64_t seed, double probability) {
  constexpr double kValues = 1 << 16;
  return {seed, static_cast<std::uint32_t>(probability * kValues),
          probability < 1 ? static_cast<float>(1 / (1 - probability)) : 0.0F};
}

}  // namespace profiler::cuda
