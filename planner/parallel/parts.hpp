// The parts into which a pipeline cuts a model, and the gradients of each process group in a part.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/profile.hpp"
#include "planner/job/recompute.hpp"
#include "planner/job/workload.hpp"
#include "planner/parallel/parallel.hpp"

namespace planner {

/// Cuts the layers into parts of neighbours: by `stages.layers`, or so that the longest part is as short as
/// possible, and of such cuts that with the most layers in the first parts. Times given for a part replace
/// the profile's in proportion. Each part computes its own segments again. Throws Unsupported if there are
/// fewer layers than parts.
std::vector<core::Profile> parts_of(const core::Profile& profile, const Parallel& parallel,
                                    const std::optional<Recompute>& recompute = {});

/// The workload with the gradients of experts alone, or with all others alone.
Workload gradients_of(const Workload& workload, const Parallel& parallel, bool of_experts);

}  // namespace planner
