#include "planner/scenarios/lacking_costs.hpp"

#include <algorithm>

namespace scenarios {

bool lacks_all_reduces(const core::Network& network, const planner::Schedule& schedule) {
  const auto is_measured = [&](core::CollectiveKind kind) {
    return std::ranges::any_of(network.measured,
                               [&](const core::Measured& each) { return each.collective == kind; });
  };
  const bool has_halves =
      is_measured(core::CollectiveKind::reduce_scatter) && is_measured(core::CollectiveKind::all_gather);
  if (network.link || !network.levels.empty() || !has_halves || is_measured(core::CollectiveKind::all_reduce))
    return false;
  const planner::Program program = schedule.pipeline->program(1, schedule.options);
  return std::ranges::any_of(
      program.ops, [](const planner::Op& op) { return op.kind == core::CollectiveKind::all_reduce; });
}

}  // namespace scenarios
