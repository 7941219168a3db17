// The search for the threshold of Gaussian-k, independent of who counts: the CPU or a device.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace compression {

/// Returns the threshold that k of n normally distributed elements reach; 0 < k < n.
float normal_threshold(double mean, double deviation, std::size_t k, std::size_t n);

/// Returns a threshold that 3k/4 to 5k/4 elements reach, if trials from `first` on find one. `reaching`
/// returns the number of elements that reach a threshold; the returned threshold is its last argument.
std::optional<float> adjusted_threshold(std::size_t k, float first,
                                        const std::function<std::size_t(float)>& reaching);

}  // namespace compression
