// Where no few times describe a beginning, groupings are simulated, and the plan found is a heuristic with a
// bound: slow-down where all-gathers run under forward or decoding after backward, all-gathers that wait for
// forward or come before passes.

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

  /// Begins at what would be best without slow-down, and at what is plain: one group, each gradient alone.
  OptimalGroups optimal(const GroupRules& rules) const override {
    const OptimalGroups start = unslowed_->optimal(rules);
    const LocalSearch search = {.rules = rules,
                                .ways = static_cast<std::uint32_t>(request_.ways.size()),
                                .value = [this](const Groups& groups) { return value(groups); }};
    Improved found = improve(search, start.groups);
    for (const Groups& plain : plain_groups(rules)) {
      const Time reached = value(plain);
      if (reached >= found.value) continue;
      found = improve(search, plain);
    }
    const Time least = std::max(start.value - start.may_be_off_by, lower_bound());
    return {.groups = found.groups,
            .value = found.value,
            .largest_front = 0,
            .may_be_off_by = std::max(Time::zero(), found.value - least)};
  }

 private:
  /// As far as the rules allow them.
  std::vector<Groups> plain_groups(const GroupRules& rules) const {
    const std::uint32_t count = request_.workload.gradient_count();
    std::vector<Groups> out = {{{.begin = 0, .end = count}}, {}};
    for (std::uint32_t i = 0; i < count; ++i) out.back().push_back({.begin = i, .end = i + 1});
    const auto is_ruled_out = [&](const Groups& groups) {
      if (rules.count().value_or(groups.size()) != groups.size()) return true;
      return std::any_of(groups.begin(), groups.end(),
                         [&](const Group& group) { return !rules.allows(group.begin, group.end); });
    };
    out.erase(std::remove_if(out.begin(), out.end(), is_ruled_out), out.end());
    return out;
  }

  const FusionRequest& request_;
  std::unique_ptr<IterationModel> unslowed_;
};

}  // namespace

std::unique_ptr<IterationModel> simulated_model(const FusionRequest& request,
                                                std::unique_ptr<IterationModel> unslowed) {
  return std::make_unique<SimulatedModel>(request, std::move(unslowed));
}

}  // namespace planner
