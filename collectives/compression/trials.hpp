// How Gaussian-k comes to its threshold, whoever counts: the CPU or a device.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace compression {

/// What k of n elements reach if they are normally distributed; 0 < k < n.
float normal_threshold(double mean, double deviation, std::size_t k, std::size_t n);

/// A threshold that from 3k/4 to 5k/4 elements reach, if trials from `first` on find one. `reaching` tells
/// how many reach a threshold; what it was asked last is what is returned.
std::optional<float> adjusted_threshold(std::size_t k, float first,
                                        const std::function<std::size_t(float)>& reaching);

}  // namespace compression
