// If no compact state describes a prefix, groupings are simulated, and the plan is a heuristic with a bound:
// slow-down with all-gathers during forward or decoding after backward, and all-gathers that wait for forward
// or precede passes.

#include <algorithm>
#include <utility>

#include "planner/choose/iteration_models.hpp"
#include "planner/choose/local_search.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/choose/simulate_iteration.hpp"

namespace planner {
namespace {

using sim::Time;

class SimulatedModel final : public IterationModel {
 public:
  SimulatedModel(const IterationSpec& spec, std::unique_ptr<IterationModel> unslowed,
                 std::vector<Groups> starts, std::unique_ptr<IterationModel> simpler)
      : spec_(spec),
        unslowed_(std::move(unslowed)),
        starts_(std::move(starts)),
        simpler_(std::move(simpler)) {}

  Time value(const Groups& groups) const override { return simulate_iteration(spec_, groups); }

  /// Slow-down never shortens an iteration.
  Time lower_bound() const override { return unslowed_->lower_bound(); }

  /// The optimum of the bound, if it takes as long in simulation. Otherwise starts from it, from the optimum
  /// of the simpler bound, from the plain groupings (one group, each gradient alone), and from the best three
  /// of the other starts.
  OptimalGroups optimal(const GroupRules& rules) const override {
    const OptimalGroups start = unslowed_->optimal(rules);
    if (start.optimality_gap == Time::zero() && value(start.groups) == start.value) return start;
    const LocalSearch search = {.rules = rules,
                                .transfers = static_cast<std::uint32_t>(spec_.transfers.size()),
                                .value = [this](const Groups& groups) { return value(groups); }};
    Improved found = improve(search, start.groups);
    Time min = std::max(start.value - start.optimality_gap, lower_bound());
    if (simpler_) {
      const OptimalGroups other = simpler_->optimal(rules);
      min = std::max(min, other.value - other.optimality_gap);
      found = better(std::move(found), improve(search, other.groups));
    }
    for (const Groups& plain : plain_groups(rules)) {
      const Time reached = value(plain);
      if (reached >= found.value) continue;
      found = improve(search, plain);
    }
    for (const Groups& other : best_starts(rules)) found = better(std::move(found), improve(search, other));
    return {.groups = found.groups,
            .value = found.value,
            .optimality_gap = std::max(Time::zero(), found.value - min)};
  }

 private:
  static Improved better(Improved known, Improved other) {
    return other.value < known.value ? std::move(other) : std::move(known);
  }

  /// The plain groupings, as far as the rules allow.
  std::vector<Groups> plain_groups(const GroupRules& rules) const {
    const std::uint32_t count = spec_.workload.gradient_count();
    std::vector<Groups> out = {{{.begin = 0, .end = count}}, {}};
    for (std::uint32_t i = 0; i < count; ++i) out.back().push_back({.begin = i, .end = i + 1});
    std::erase_if(out, [&](const Groups& groups) { return is_ruled_out(rules, groups); });
    return out;
  }

  std::vector<Groups> best_starts(const GroupRules& rules) const {
    constexpr std::size_t kTaken = 3;
    std::vector<std::pair<Time, std::size_t>> ranks;
    for (std::size_t i = 0; i < starts_.size(); ++i)
      if (!is_ruled_out(rules, starts_[i])) ranks.emplace_back(value(starts_[i]), i);
    std::ranges::sort(ranks);
    std::vector<Groups> out;
    for (std::size_t i = 0; i < std::min(kTaken, ranks.size()); ++i) out.push_back(starts_[ranks[i].second]);
    return out;
  }

  static bool is_ruled_out(const GroupRules& rules, const Groups& groups) {
    if (rules.count().value_or(groups.size()) != groups.size()) return true;
    return std::ranges::any_of(groups,
                               [&](const Group& group) { return !rules.allows(group.begin, group.end); });
  }

  const IterationSpec& spec_;
  std::unique_ptr<IterationModel> unslowed_;
  std::vector<Groups> starts_;
  std::unique_ptr<IterationModel> simpler_;
};

}  // namespace

std::unique_ptr<IterationModel> simulated_model(const IterationSpec& spec,
                                                std::unique_ptr<IterationModel> unslowed,
                                                std::vector<Groups> starts,
                                                std::unique_ptr<IterationModel> simpler) {
  return std::make_unique<SimulatedModel>(spec, std::move(unslowed), std::move(starts), std::move(simpler));
}

}  // namespace planner
