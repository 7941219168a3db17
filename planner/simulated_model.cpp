// Slow-down where all-gathers run under forward, or decoding after backward: no few times describe a
// beginning, so groupings are simulated, and the plan found is a heuristic with a bound.

#include "planner/local_search.hpp"
#include "planner/model_parts.hpp"
#include "planner/simulate_iteration.hpp"

namespace planner {
namespace {

using sim::Time;

class SimulatedModel final : public IterationModel {
 public:
  SimulatedModel(const FusionRequest& request, std::unique_ptr<IterationModel> unslowed)
      : request_(request), unslowed_(std::move(unslowed)) {}

  Time value(const Groups& groups) const override { return simulate_iteration(request_, groups); }

  /// Slowing down never shortens an iteration.
  Time lower_bound() const override { return unslowed_->lower_bound(); }

  /// Begins at what would be best without slow-down.
  OptimalGroups optimal(const GroupRules& rules) const override {
    const OptimalGroups start = unslowed_->optimal(rules);
    const LocalSearch search = {.rules = rules,
                                .ways = static_cast<std::uint32_t>(request_.ways.size()),
                                .value = [this](const Groups& groups) { return value(groups); }};
    const Improved found = improve(search, start.groups);
    const Time least = start.value - start.may_be_off_by;
    return {.groups = found.groups,
            .value = found.value,
            .largest_front = 0,
            .may_be_off_by = std::max(Time::zero(), found.value - least)};
  }

 private:
  const FusionRequest& request_;
  std::unique_ptr<IterationModel> unslowed_;
};

}  // namespace

std::unique_ptr<IterationModel> simulated_model(const FusionRequest& request,
                                                std::unique_ptr<IterationModel> unslowed) {
  return std::make_unique<SimulatedModel>(request, std::move(unslowed));
}

}  // namespace planner
