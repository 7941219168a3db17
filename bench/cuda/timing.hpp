// Shared parts of the GPU benchmarks: repeated timing, and gradients of any size.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/compression/cuda/device.hpp"
#include "sim/draws.hpp"

namespace bench {

constexpr int kWarmUps = 3;
constexpr int kRepetitions = 30;

struct Timing {
  double median_ms = 0;
  double min_ms = 0;
  double quartile_range_ms = 0;
};

/// Times work(0), work(1), ...
inline Timing time(compression::cuda::Device& device, const std::function<void(std::size_t)>& work,
                   int repetitions = kRepetitions) {
  std::size_t call = 0;
  for (int i = 0; i < kWarmUps; ++i) work(call++);
  std::vector<double> ms;
  for (int i = 0; i < repetitions; ++i) ms.push_back(device.engine().timed_ms([&] { work(call++); }));
  std::ranges::sort(ms);
  const std::size_t count = ms.size();
  return {.median_ms = (ms[(count - 1) / 2] + ms[count / 2]) / 2,
          .min_ms = ms.front(),
          .quartile_range_ms = ms[3 * count / 4] - ms[count / 4]};
}

/// Gradients of layers with different scales: one sampled block, repeated with other scales, which is fast.
inline std::vector<float> gradient_like(std::size_t elements, std::uint64_t seed) {
  constexpr std::size_t kBlock = std::size_t{1} << 18U;
  std::vector<float> out(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto scale = static_cast<float>(1 + sim::hash(seed, i / kBlock) % 10);
    out[i] = i < kBlock ? static_cast<float>(sim::standard_normal(sim::hash(seed, i)) * 1e-3)
                        : out[i % kBlock] * scale;
  }
  return out;
}

}  // namespace bench
