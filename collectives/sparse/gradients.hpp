// Gradients as training makes them, for tests and measurements: drawn, so that any element of any rank in any
// iteration is the same on every machine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparse {

enum class Tails : std::uint8_t { gaussian, laplace };

struct GradientSource {
  std::uint64_t seed = 1;
  Tails tails = Tails::gaussian;
  /// How many layers of random lengths; the standard deviation of the logarithm of a layer's scale.
  std::size_t layers = 1;
  double layer_sigma = 1;
  /// The share of an element's variance that all ranks have in common: 0 makes selections independent (but
  /// for what layers and laplace tails make alike), 1 makes ranks equal.
  double common = 0.5;
  /// How far an element turns from iteration to iteration: t iterations apart its values correlate by
  /// cos(2 t arctan(drift)). 0 makes iterations equal.
  double drift = 0.02;
};

/// Elements have mean 0 and, before a layer's scale, variance 1. In laplace tails every element has a scale
/// of its own that all ranks and iterations share, so that the same ones tend to be great.
/// std::invalid_argument for no layers, a negative drift or sigma, or a share outside 0 to 1.
std::vector<float> gradient(const GradientSource& source, std::size_t elements, std::uint32_t rank,
                            std::uint64_t iteration);

}  // namespace sparse
