#include "planner/parallel/slots.hpp"

#include <algorithm>
#include <cstddef>

namespace planner {
namespace {

/// The n-th forward or backward pass of a stage. Backward goes through its parts from the last to the first.
Slot pass(const Stages& stages, std::int64_t pipeline, std::int64_t stage, PassKind kind, std::int64_t n) {
  const std::int64_t parts = stages.virtual_stages;
  const std::int64_t run = parts == 1 ? 1 : pipeline;
  const std::int64_t in_turn = n / run % parts;
  const std::int64_t part = kind == PassKind::forward ? in_turn : parts - 1 - in_turn;
  return {.kind = kind, .part = stage + part * pipeline, .micro_batch = n / (run * parts) * run + n % run};
}

/// Forward passes before the first backward pass.
std::int64_t warm_up(const Stages& stages, std::int64_t pipeline, std::int64_t stage) {
  const std::int64_t after = pipeline - 1 - stage;
  if (stages.order == StageOrder::gpipe) return stages.micro_batches;
  if (stages.order == StageOrder::interleaved) return 2 * after + (stages.virtual_stages - 1) * pipeline;
  return after;
}

std::vector<Slot> merged(const std::vector<Slot>& slots) {
  std::vector<Slot> out;
  for (const Slot& slot : slots) {
    Slot first = slot;
    first.kind = PassKind::input_gradients;
    if (slot.kind == PassKind::weight_gradients && !out.empty() && out.back() == first)
      out.back().kind = PassKind::backward;
    else
      out.push_back(slot);
  }
  return out;
}

}  // namespace

std::vector<Slot> slots_of(const Stages& stages, std::int64_t pipeline, std::int64_t stage) {
  if (stages.order == StageOrder::listed) return merged(stages.passes[static_cast<std::size_t>(stage)]);
  const bool divides = stages.order == StageOrder::zero_bubble;
  const std::int64_t count = stages.micro_batches * stages.virtual_stages;
  const std::int64_t ahead = std::min(count, warm_up(stages, pipeline, stage));
  const std::int64_t later = divides ? stage : 0;  // passes between the halves of a backward pass
  std::vector<Slot> out;
  const auto add = [&](PassKind kind, std::int64_t n) {
    if (0 <= n && n < count) out.push_back(pass(stages, pipeline, stage, kind, n));
  };
  for (std::int64_t n = 0; n < ahead; ++n) add(PassKind::forward, n);
  for (std::int64_t n = 0; n < count + later; ++n) {
    add(PassKind::forward, ahead + n);
    add(divides ? PassKind::input_gradients : PassKind::backward, n);
    if (divides) add(PassKind::weight_gradients, n - later);
  }
  return merged(out);
}

}  // namespace planner
