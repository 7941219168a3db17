#include "planner/pipeline.hpp"

#include "planner/entries.hpp"

namespace planner {

// To add a pipeline: write pipelines/<name>.cpp and list it here.
Pipeline after_backward();
Pipeline wfbp();
Pipeline dear();
Pipeline zero();

std::span<const Pipeline> pipelines() {
  static const std::vector<Pipeline> all = {after_backward(), wfbp(), dear(), zero()};
  return all;
}

const Pipeline& pipeline(std::string_view name) { return entry(pipelines(), name); }

}  // namespace planner
