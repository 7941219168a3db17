// DeAR: each all-reduce in two halves. Reduce-scatters hide under this iteration's backward pass, all-gathers
// under the next one's forward pass.

#include "planner/iteration.hpp"
#include "planner/pipeline.hpp"

namespace planner {
namespace {

using traces::CollectiveKind;

Program program(std::uint32_t groups, const PipelineOptions& /*options*/) {
  Program program;
  program.update = Update::by_group;
  for (std::uint32_t group = 0; group < groups; ++group)
    program.ops.push_back({CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::nothing});
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::drained, Delivers::own_layers});
  return program;
}

std::unique_ptr<IterationModel> model(const FusionRequest& request) { return two_phase_model(request, true); }

}  // namespace

Pipeline dear() {
  return {"dear", "reduce-scatter under backward, all-gather under the next forward", {}, program, model};
}

}  // namespace planner
