// The most memory that a rank holds while gradients are summed, ranks being threads. Replaces the global
// operator new, so that what every thread allocates is counted.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/collectives/sparse/aggregate.hpp"

namespace held_memory {

/// What every rank gives, the same in each iteration.
using Gradients = std::vector<std::vector<float>>;
Gradients sampled_gradients(std::size_t elements, std::uint32_t ranks);

/// The most of any of the first `ranks`, in gradients: its gradient and residual, what it works with, and
/// messages from when they are made until they are used. Those that wait in the transport count for the rank
/// that they wait for, so that the figure differs a little from run to run, as threads do. Three iterations
/// with error feedback; thresholds are found in the first.
double max_held(const aggregate::Method& method, double density, std::uint32_t ranks,
                const Gradients& gradients);

}  // namespace held_memory
