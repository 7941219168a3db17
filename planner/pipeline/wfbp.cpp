// Wait-free back-propagation: a group is sent as soon as its last gradient is ready, during the rest of
// backward.

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

Program program(std::uint32_t groups, const PipelineOptions& /*options*/) {
  Program program;
  program.ops.reserve(groups);
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::all_reduce, group, Issue::gradients, Delivers::next_iteration});
  return program;
}

}  // namespace

Pipeline wfbp() {
  return {.name = "wfbp",
          .summary = "communicate each group as soon as its gradients are ready",
          .program = program};
}

}  // namespace planner
