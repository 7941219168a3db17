// The order in which a stage of a pipeline runs its forward and backward passes.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/parallel/parallel.hpp"

namespace planner {

/// One pass of one micro-batch through one part of a stage.
struct Slot {
  bool is_forward = true;
  std::int64_t part = 0;  ///< of the model: stage + stages x number of the part in its stage
  std::int64_t micro_batch = 0;
  bool operator==(const Slot&) const = default;
};

/// The passes of a stage in order. 1F1B as in Narayanan et al. 2021; interleaved as Megatron-LM's
/// schedules.py: micro-batches go through the parts of a stage in runs of as many as there are stages.
std::vector<Slot> slots_of(const Stages& stages, std::int64_t pipeline, std::int64_t stage);

}  // namespace planner
