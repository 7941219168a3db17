// The passes of stages as a scenario lists them, in the notation of torch.distributed.pipelining: 0F1 is the
// forward pass of micro-batch 1 through part 0, and B, I and W stand for the kinds of backward passes.

#pragma once

#include <cstdint>
#include <string>

#include "core/field.hpp"
#include "planner/parallel/stages.hpp"

namespace planner {

/// Sets the order of the stages, their passes, parts and micro-batches from a list with a text for each of
/// the `pipeline` stages, such as "0F0,0F1,,0B0,0B1": a row that PyTorch's schedules write as CSV. Empty
/// places stand for nothing, and "(0F1;0B0)OVERLAP_F_B" for two passes one after the other. Throws
/// InputError unless every micro-batch passes each part forward and backward once, in an order that can run.
void read_passes(const core::Field& rows, std::int64_t pipeline, Stages& stages);

/// The pass in this notation.
std::string text_of(const Slot& slot);

}  // namespace planner
