// Synthetic gradients that resemble those of training, for tests and measurements: any element of any rank in
// any iteration is the same on every machine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparse {

enum class Tails : std::uint8_t { gaussian, laplace };

struct GradientSource {
  std::uint64_t seed = 1;
  Tails tails = Tails::gaussian;
  /// Number of layers, which have random lengths; and the standard deviation of the logarithm of a layer's
  /// scale.
  std::size_t layers = 1;
  double layer_sigma = 1;
  /// The fraction of an element's variance that all ranks share: with 0, selections are independent (apart
  /// from the effect of layers and laplace tails), with 1, ranks are equal.
  double common = 0.5;
  /// How much an element changes between iterations: values t iterations apart have the correlation cos(2 t
  /// arctan(drift)). With 0, iterations are equal.
  double drift = 0.02;
};

/// Elements have mean 0 and, before a layer's scale, variance 1. With laplace tails every element has its own
/// scale, which all ranks and iterations share, so that the same elements tend to be large.
/// std::invalid_argument for no layers, a negative drift or sigma, or a share outside 0 to 1.
std::vector<float> gradient(const GradientSource& source, std::size_t elements, std::uint32_t rank,
                            std::uint64_t iteration);

}  // namespace sparse
