// Measures the peak memory of a rank while gradients are summed; ranks are threads. Replaces the global
// operator new, so that the allocations of every thread are counted.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/collectives/sparse/aggregate.hpp"

namespace held_memory {

/// The gradient of every rank, the same in each iteration.
using Gradients = std::vector<std::vector<float>>;
Gradients sampled_gradients(std::size_t elements, std::uint32_t ranks);

/// Returns the maximum over the first `ranks`, in gradients: gradient and residual, working memory, and
/// messages from their creation to their use. Messages that wait in the transport count for their receiver,
/// so the figure varies slightly with the scheduling of threads. Runs three iterations with error feedback;
/// thresholds are computed in the first.
double max_held(const aggregate::Method& method, double density, std::uint32_t ranks,
                const Gradients& gradients);

}  // namespace held_memory
