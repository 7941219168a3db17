// After backward: the whole backward pass, then every group, then the next iteration (S-SGD, SyncEASGD).

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

Program program(std::uint32_t groups, const PipelineOptions& /*options*/) {
  Program program;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::all_reduce, group, Issue::backward_end, Delivers::next_iteration});
  return program;
}

}  // namespace

Pipeline after_backward() {
  return {.name = "after_backward",
          .summary = "communicate when the backward pass has ended",
          .option_keys = {},
          .program = program};
}

}  // namespace planner
