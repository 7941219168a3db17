#include "planner/graph/groups_by_layer.hpp"

namespace planner {

std::vector<std::vector<std::uint32_t>> groups_by_first_layer(const Workload& workload, const Groups& groups,
                                                              Sharding sharding) {
  std::vector<std::vector<std::uint32_t>> out(workload.forward.size());
  for (auto group = static_cast<std::uint32_t>(groups.size()); group-- > 0;) {
    const Gradient& first = workload.gradients[groups[group].end - 1];
    out[sharding == Sharding::parameters ? first.first_layer : first.layer].push_back(group);
  }
  return out;
}

std::vector<std::vector<std::uint32_t>> groups_by_first_step(const Workload& workload, const Groups& groups,
                                                             Sharding sharding) {
  std::vector<std::vector<std::uint32_t>> out(workload.backward.size());
  std::vector<std::uint32_t> first_step(workload.forward.size());
  for (auto step = static_cast<std::uint32_t>(workload.backward.size()); step-- > 0;)
    first_step[workload.backward[step].layer] = step;
  for (std::uint32_t group = 0; group < groups.size(); ++group) {
    const Gradient& last = workload.gradients[groups[group].begin];
    out[first_step[sharding == Sharding::parameters ? last.last_layer : last.layer]].push_back(group);
  }
  return out;
}

}  // namespace planner
