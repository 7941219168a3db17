#include "planner/graph/lower.hpp"

#include <algorithm>
#include <utility>

#include "planner/graph/iterations.hpp"

namespace planner {

Lowered lower(const Job& job) {
  GraphWriter writer(job);
  const bool is_for_passes = std::ranges::any_of(job.program.ops, [](const Op& op) {
    return op.issue == Issue::forward || op.issue == Issue::backward;
  });
  if (is_for_passes)
    add_iterations_for_passes(writer);
  else
    add_iterations_for_gradients(writer);
  return std::move(writer).finish();
}

}  // namespace planner
