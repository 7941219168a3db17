// The most memory that a rank holds while gradients are summed, ranks being threads. Replaces the global
// operator new, so that what every thread allocates is counted.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/aggregate.hpp"

namespace bench {

/// What every rank gives in each of three iterations: drawn once, for all methods.
struct DrawnGradients {
  std::size_t elements;
  std::uint32_t ranks;
  std::vector<std::vector<float>> drawn;  ///< by iteration and rank

  DrawnGradients(std::size_t its_elements, std::uint32_t its_ranks);
};

/// The most of any rank, in gradients: its gradient and residual, what it works with, and messages from when
/// they are made until they are used. Those that wait in the transport count for the rank that they wait for,
/// so that the figure differs a little from run to run, as threads do. With error feedback; thresholds are
/// found in the first iteration.
double most_held(const training::Method& method, double density, const DrawnGradients& gradients);

}  // namespace bench
