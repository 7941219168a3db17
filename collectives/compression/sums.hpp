// Sums over a vector in a fixed order that suits vector instructions, so that means have the same bits on any
// machine and build.

#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace compression {

/// Computes eight sums, each of every eighth element's term, then adds the eight in order.
template <typename Term>
double sum_of(std::span<const float> x, Term term) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; x.size() - i >= sums.size(); i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += term(x[i + lane]);
  for (std::size_t lane = 0; i < x.size(); ++i, ++lane) sums[lane] += term(x[i]);
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

/// Statistics of the finite elements; all 0 if there is none.
struct Magnitudes {
  double mean = 0;             ///< of |x|
  float greatest = 0;          ///< of |x|
  std::size_t not_finite = 0;  ///< number of infinities and NaN, which are excluded from the rest
};

Magnitudes magnitudes(std::span<const float> x);

/// Like Magnitudes, of the finite elements only.
struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(std::span<const float> x);

}  // namespace compression
