// Gradients for measurements of compressors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace profiler {

/// Gradients of any size up to `max`, a different one for each call: windows into the same values, which are
/// normally distributed, in layers of different scales.
class Gradients {
 public:
  Gradients(std::size_t max, std::uint64_t seed);

  std::span<const float> values() const { return values_; }
  /// The index of the first value of the next window.
  std::size_t next_window();

 private:
  std::vector<float> values_;
  std::size_t window_ = 0;
};

}  // namespace profiler
