// The parts into which a pipeline cuts a model, and the gradients of each process group in a part.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/profile.hpp"
#include "planner/job/recompute.hpp"
#include "planner/job/workload.hpp"
#include "planner/parallel/parallel.hpp"
#include "sim/time.hpp"

namespace planner {

/// Cuts the layers into parts of neighbours: by `stages.layers`, or between blocks so that the longest part
/// is as short as possible, and of such cuts that with the most layers in the first parts. Times given for a
/// part replace the profile's in proportion. The last part gets copies of the tied tensors. Each part
/// computes its own segments again. Throws Unsupported if there are fewer layers than parts, or fewer blocks
/// where `stages.layers` is empty, or a tied tensor is not in the first part or its layer not in the last.
std::vector<core::Profile> parts_of(const core::Profile& profile, const Parallel& parallel,
                                    const std::optional<Recompute>& recompute = {});

/// The workload with the gradients of experts alone, or with all others alone.
Workload gradients_of(const Workload& workload, const Parallel& parallel, bool of_experts);

/// The time of a step of backward in a pass of this kind, which is not forward: `weight_share` of it belongs
/// to weight gradients if its layer has parameters.
sim::Time step_time(const Workload& workload, const BackwardStep& step, PassKind kind, double weight_share);

/// That of all steps.
sim::Time backward_time(const Workload& workload, PassKind kind, double weight_share);

/// The workload with the steps of backward as long as in a pass for weight gradients.
Workload weights_alone(Workload workload, double weight_share);

/// The workload of the last part with the gradients of tied tensors alone.
Workload tied_gradients(const Workload& last, const Parallel& parallel);

}  // namespace planner
