#include "profiler/measure/compressors/gradients.hpp"

#include "sim/draws.hpp"

namespace profiler {
namespace {

constexpr std::size_t kLayer = 100'000;  // elements of one scale
constexpr std::size_t kStep = 64;        // every window is as aligned as the first
constexpr std::size_t kWindows = 61;

}  // namespace

Gradients::Gradients(std::size_t max, std::uint64_t seed) : values_(max + kWindows * kStep) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto scale = static_cast<double>(1 + sim::hash(seed + 1, i / kLayer) % 10);
    values_[i] = static_cast<float>(sim::standard_normal(sim::hash(seed, i)) * scale * 1e-3);
  }
}

std::size_t Gradients::next_window() {
  window_ = (window_ + 1) % kWindows;
  return window_ * kStep;
}

}  // namespace profiler
