// Data to learn from, drawn where it is needed: classes that are Gaussian clusters in a space of a few
// dimensions, which overlap, so that no network reaches a loss of 0.

#pragma once

#include <cstddef>
#include <cstdint>

#include "training/perceptron.hpp"

namespace training {

struct Clusters {
  std::uint64_t seed = 1;
  std::size_t dimensions = 32;
  std::size_t classes = 6;
  std::size_t per_class = 2;  ///< clusters of a class, so that it cannot be told by one plane
  double spread = 0.4;        ///< standard deviation of the centres; that of a sample about its centre is 1
  /// The part of a worker's samples that are of its own classes alone (class c is worker c mod P's); the
  /// others are of any class. 0 makes workers alike, 1 as different as can be.
  double skew = 0;
};

/// A column for each cluster.
Matrix<float> centres(const Clusters& clusters);

/// Which samples: the same for the same words on any machine.
struct Draw {
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;
  std::uint64_t iteration = 0;
  std::size_t samples = 0;
};

Batch<float> draw_batch(const Clusters& clusters, const Matrix<float>& centres, const Draw& draw);

/// Of all classes alike, and none that a worker sees.
Batch<float> draw_held_out(const Clusters& clusters, const Matrix<float>& centres, std::size_t samples);

}  // namespace training
