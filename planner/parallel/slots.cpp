#include "planner/parallel/slots.hpp"

#include <algorithm>

namespace planner {
namespace {

/// The n-th forward or backward pass of a stage. Backward goes through its parts from the last to the first.
Slot pass(const Stages& stages, std::int64_t pipeline, std::int64_t stage, bool is_forward, std::int64_t n) {
  const std::int64_t parts = stages.virtual_stages;
  const std::int64_t run = parts == 1 ? 1 : pipeline;
  const std::int64_t in_turn = n / run % parts;
  const std::int64_t part = is_forward ? in_turn : parts - 1 - in_turn;
  return {.is_forward = is_forward,
          .part = stage + part * pipeline,
          .micro_batch = n / (run * parts) * run + n % run};
}

/// Forward passes before the first backward pass.
std::int64_t warm_up(const Stages& stages, std::int64_t pipeline, std::int64_t stage) {
  const std::int64_t after = pipeline - 1 - stage;
  if (stages.order == StageOrder::one_f_one_b) return after;
  return 2 * after + (stages.virtual_stages - 1) * pipeline;
}

}  // namespace

std::vector<Slot> slots_of(const Stages& stages, std::int64_t pipeline, std::int64_t stage) {
  const std::int64_t count = stages.micro_batches * stages.virtual_stages;
  const std::int64_t ahead = std::min(count, warm_up(stages, pipeline, stage));
  std::vector<Slot> out;
  for (std::int64_t n = 0; n < ahead; ++n) out.push_back(pass(stages, pipeline, stage, true, n));
  for (std::int64_t n = 0; n < count; ++n) {
    if (ahead + n < count) out.push_back(pass(stages, pipeline, stage, true, ahead + n));
    out.push_back(pass(stages, pipeline, stage, false, n));
  }
  return out;
}

}  // namespace planner
