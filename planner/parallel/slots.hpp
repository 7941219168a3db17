// The order in which a stage of a pipeline runs its passes.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/parallel/stages.hpp"

namespace planner {

/// The passes of a stage in order, whatever is listed or the rule of its order says: 1F1B as in Narayanan et
/// al. 2021, interleaved as Megatron-LM's schedules.py, where micro-batches go through the parts of a stage
/// in runs of as many as there are stages. A pass for input gradients that the one for weight gradients
/// follows at once is one backward pass, as PyTorch merges them (torch/distributed/pipelining/schedules.py).
std::vector<Slot> slots_of(const Stages& stages, std::int64_t pipeline, std::int64_t stage);

}  // namespace planner
