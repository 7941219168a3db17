#include "planner/parallel/slowest_replica.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace planner {
namespace {

/// The slowest worker of a group, if `listed` of its `members` have a slowdown of their own, `worst` at most.
/// The others have 1.
struct Slowest {
  std::int64_t listed = 0;
  double worst = 0;

  void add(double slowdown) {
    ++listed;
    worst = std::max(worst, slowdown);
  }
  double of(std::int64_t members) const { return listed == members ? worst : std::max(worst, 1.0); }
};

}  // namespace

std::vector<double> slowest_replica(const Parallel& parallel, std::int64_t workers,
                                    const std::vector<Straggler>& stragglers) {
  const std::int64_t of_stage = workers / parallel.pipeline;
  const std::int64_t replicas = of_stage / parallel.tensor;
  using Place = std::pair<std::int64_t, std::int64_t>;  // replica and stage
  std::map<Place, Slowest> tensor_groups;
  for (const Straggler& straggler : stragglers)
    if (straggler.worker < workers)
      tensor_groups[{straggler.worker % of_stage / parallel.tensor, straggler.worker / of_stage}].add(
          straggler.slowdown);

  std::vector<Slowest> stages(static_cast<std::size_t>(parallel.pipeline));
  std::map<std::int64_t, std::vector<double>> by_replica;  // those with stragglers
  for (const auto& [place, group] : tensor_groups) {
    const double slowdown = group.of(parallel.tensor);
    stages[static_cast<std::size_t>(place.second)].add(slowdown);
    auto& own = by_replica.try_emplace(place.first, stages.size(), 1.0).first->second;
    own[static_cast<std::size_t>(place.second)] = slowdown;
  }
  std::vector<double> out;
  for (const Slowest& stage : stages) out.push_back(stage.of(replicas));
  const bool one_has_all = static_cast<std::int64_t>(by_replica.size()) < replicas &&
                           std::ranges::all_of(out, [](double slowdown) { return slowdown == 1; });
  if (one_has_all || std::ranges::any_of(by_replica, [&](const auto& each) { return each.second == out; }))
    return out;
  throw core::Unsupported(
      "stragglers of which one replica has the slowest of every stage, with the key parallel",
      fmt::format("those of {} replicas on {} workers", by_replica.size(), workers), "/stragglers");
}

}  // namespace planner
