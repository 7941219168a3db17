// After backward: the whole backward pass, then every group, then the next iteration (S-SGD, SyncEASGD).

#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("wfbp").program(groups, options);
  for (Op& op : program.ops) op.issue = Issue::backward_end;
  return program;
}

}  // namespace

Pipeline after_backward() {
  return {.name = "after_backward",
          .summary = "communicate when the backward pass has ended",
          .program = program};
}

}  // namespace planner
