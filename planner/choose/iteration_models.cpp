#include "planner/choose/iteration_models.hpp"

#include <algorithm>

namespace planner {

std::unique_ptr<IterationModel> make_model(const IterationSpec& spec) {
  const Program program = spec.program(1);
  const auto any = [&](auto is_so) { return std::any_of(program.ops.begin(), program.ops.end(), is_so); };
  const auto issued = [&](Issue issue) { return any([&](const Op& op) { return op.issue == issue; }); };
  if (program.by_layer) return by_layer_model(spec);
  if (issued(Issue::forward) || issued(Issue::backward)) return sharded_model(spec);
  if (program.ops.size() == 1) return channel_model(spec, issued(Issue::backward_end));
  if (issued(Issue::drained) && program.prefetch) return waiting_gathers_model(spec);
  return two_phase_model(spec, issued(Issue::drained));
}

}  // namespace planner
