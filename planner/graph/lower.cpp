#include "planner/graph/lower.hpp"

#include <utility>

#include "planner/graph/iterations.hpp"

namespace planner {

Lowered lower(const Job& job) {
  GraphWriter writer(job);
  if (job.program.has_passes())
    add_iterations_for_passes(writer);
  else
    add_iterations_for_gradients(writer);
  return std::move(writer).finish();
}

}  // namespace planner
