#include "planner/scenarios/for_target.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "planner/choose/fusion/optimal.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/local_search.hpp"
#include "planner/emit/emitters/modules.hpp"
#include "planner/run/cost_warnings.hpp"
#include "planner/run/metrics.hpp"

namespace scenarios {
namespace {

using planner::Behaviour;
using planner::Forms;
using planner::FusionRequest;
using planner::Group;
using planner::Grouping;
using planner::GroupRules;
using planner::Groups;
using planner::OptimalGroups;
using planner::Schedule;
using planner::Target;
using sim::Time;

Grouping grouping_of(OptimalGroups found) {
  return {std::move(found.groups),
          {.largest_front = found.largest_front, .optimality_gap = found.optimality_gap}};
}

[[noreturn]] void refuse_constraints(const std::string& expected) {
  throw core::Unsupported(expected, "others", "/schedules");
}

/// The best of the groupings in which all groups have one transfer.
Grouping best_alike(const FusionRequest& request, const GroupRules& rules) {
  OptimalGroups best;
  Time possible = Time::max();  // no grouping is better
  for (std::uint32_t i = 0; i < request.transfers.size(); ++i) {
    const FusionRequest alone(request.setting, request.pipeline, request.options, {request.transfers[i]});
    OptimalGroups found = alone.model().optimal(rules);
    possible = std::min(possible, found.value - found.optimality_gap);
    if (!best.groups.empty() && found.value >= best.value) continue;
    for (Group& group : found.groups) group.transfer = i;
    best = std::move(found);
  }
  best.optimality_gap = best.value - possible;
  return grouping_of(std::move(best));
}

bool allows(const GroupRules& rules, const Groups& groups) {
  if (rules.count().value_or(groups.size()) != groups.size()) return false;
  return std::ranges::all_of(groups,
                             [&](const Group& group) { return rules.allows(group.begin, group.end); });
}

/// What the constraints, if there are any, allow of whole modules.
GroupRules rules_for_modules(const planner::Workload& workload, GroupRules rules, planner::Nesting nesting) {
  const planner::ModuleUnits units = planner::module_units(workload, nesting);
  for (const Group& module : units.whole) rules.keep_together(module.begin, module.end - 1);
  for (const std::uint32_t gradient : units.alone) {
    if (gradient > 0) rules.keep_apart(gradient - 1, gradient);
    if (gradient + 1 < workload.gradient_count()) rules.keep_apart(gradient, gradient + 1);
  }
  if (!planner::Completions(rules, workload.gradient_count()).possible())
    refuse_constraints("constraints that groups of whole modules can satisfy");
  return rules;
}

/// Groups that modules form and the rules allow, found step by step from these and from the smallest ones:
/// modules that lie in one another are joined, which the rules may forbid.
Groups search_formed(const FusionRequest& request, const GroupRules& rules, planner::Nesting nesting,
                     Groups from) {
  const GroupRules of_modules = rules_for_modules(request.workload, rules, nesting);
  const auto value = [&](const Groups& groups) {
    const Groups formed = planner::formed_by_modules(request.workload, groups, nesting);
    return allows(rules, formed) ? request.model().value(formed) : Time::max();
  };
  Groups smallest;
  for (std::uint32_t begin = 0, end = 1; end <= request.workload.gradient_count(); ++end)
    if (of_modules.allows(begin, end)) {
      smallest.push_back({.begin = begin, .end = end});
      begin = end;
    }
  planner::Improved best = {.groups = {}, .value = Time::max()};
  for (Groups* start : {&from, &smallest}) {
    if (start->empty() || start->back().end != request.workload.gradient_count()) continue;
    planner::Improved found =
        planner::improve({.rules = of_modules,
                          .transfers = static_cast<std::uint32_t>(request.transfers.size()),
                          .value = value},
                         std::move(*start));
    if (found.value < best.value) best = std::move(found);
  }
  if (best.value == Time::max())
    refuse_constraints(
        "constraints that hold for the groups that modules form, which join modules that lie in one another");
  return planner::formed_by_modules(request.workload, std::move(best.groups), nesting);
}

/// Not every grouping of whole modules can be formed, so the best of all of them bounds the best of those
/// that can.
Grouping best_of_modules(const FusionRequest& request, const GroupRules& rules, planner::Nesting nesting) {
  OptimalGroups found = request.model().optimal(rules_for_modules(request.workload, rules, nesting));
  Groups formed = planner::formed_by_modules(request.workload, found.groups, nesting);
  if (formed == found.groups) return grouping_of(std::move(found));
  const Time possible = found.value - found.optimality_gap;
  if (!allows(rules, formed)) formed = search_formed(request, rules, nesting, std::move(found.groups));
  const Time value = request.model().value(formed);
  return {std::move(formed), {.optimality_gap = value - possible}};
}

Grouping best_of_numbers(const planner::CapRule& rule, const FusionRequest& request,
                         const GroupRules& rules) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  planner::BestCap best = planner::best_cap(rule, [&](const Groups& groups) {
    return allows(rules, groups) ? planner::iteration_us(request, groups) : kNever;
  });
  if (best.iteration_us == kNever)
    refuse_constraints("constraints that groups of a single number can satisfy");
  const Time gap =
      best.is_every ? Time::zero() : request.model().value(best.groups) - request.model().lower_bound();
  return {std::move(best.groups), {.optimality_gap = gap}};
}

/// The best groups on the framework's ticks that are found step by step from those that are best without.
Grouping best_issued(const Target& target, const FusionRequest& request, const GroupRules& rules) {
  const auto issued = [&](const Groups& groups) { return target.issued(request.workload, groups); };
  OptimalGroups found = request.model().optimal(rules);
  // where compute and channel slow each other down, a group that waits may end sooner
  const Time possible = request.setting.conditions.overlap.slows() ? request.model().lower_bound()
                                                                   : found.value - found.optimality_gap;
  const planner::Improved best =
      planner::improve({.rules = rules,
                        .transfers = static_cast<std::uint32_t>(request.transfers.size()),
                        .value = [&](const Groups& groups) { return evaluate(request, issued(groups)); }},
                       std::move(found.groups));
  return {issued(best.groups), {.optimality_gap = best.value - possible}};
}

}  // namespace

Schedule schedule_for(const Target& target, const Schedule& schedule) {
  Schedule out = schedule;
  if (schedule.pipeline->algorithm != nullptr || planner::goes_by_layer(schedule)) {
    out.pipeline = &planner::pipeline("wfbp");
    out.options = {};
    out.all_reduce = std::nullopt;
  }
  const auto has = [&](const planner::Compressor& compressor) {
    return compressor.is_none() || (target.has != nullptr && target.has(compressor));
  };
  std::vector<planner::TransferChoice> offered = {{.compressor = schedule.compressor}};
  offered.insert(offered.end(), schedule.fusion.choices.begin(), schedule.fusion.choices.end());
  std::erase_if(offered, [&](const planner::TransferChoice& choice) {
    const bool is_algorithm = choice.all_reduce && target.forms == Forms::any_alike;
    return is_algorithm || (choice.compressor && !has(*choice.compressor));
  });
  out.compressor = {};
  out.selective = false;
  out.fusion.choices = std::move(offered);
  return out;
}

Grouping best_groups(const Target& target, const Behaviour& behaviour, const FusionRequest& request,
                     const planner::Constraints& constraints) {
  const bool by_modules = target.forms == Forms::modules || target.forms == Forms::modules_apart;
  GroupRules rules = planner::rules_of(request, constraints);
  if (by_modules && rules.allow_everything()) rules = GroupRules(request.workload);
  switch (target.forms) {
    case Forms::any:
      return target.issued != nullptr ? best_issued(target, request, rules)
                                      : grouping_of(request.model().optimal(rules));
    case Forms::any_alike: return best_alike(request, rules);
    case Forms::modules: return best_of_modules(request, rules, planner::Nesting::allowed);
    case Forms::modules_apart: return best_of_modules(request, rules, planner::Nesting::none);
    case Forms::one_number: {
      const planner::DataTypes& types = request.setting.conditions.data_types;
      return best_of_numbers(target.rule(request.workload, behaviour, types), request, rules);
    }
  }
  return {};
}

namespace {

/// The plan's part that decides how the framework behaves.
planner::PlanFile planned_as(const planner::Setting& setting, const Schedule& schedule) {
  planner::PlanFile plan;
  plan.pipeline = schedule.pipeline->name;
  plan.options = schedule.options;
  const std::int64_t workers = planner::shard_workers(*setting.network, schedule.options);
  plan.options.shard_level.reset();
  plan.options.shard_workers.reset();
  if (workers > 0 && workers < setting.costs.workers()) plan.options.shard_workers = workers;
  return plan;
}

planner::Run run_of(const Behaviour& behaviour, const FusionRequest& request, Grouping found) {
  Schedule schedule;
  schedule.pipeline = behaviour.pipeline;
  schedule.options = behaviour.options;
  planner::Simulated simulated =
      planner::simulate_groups(request.setting, schedule, std::move(found.groups), request.transfers);
  const planner::Metrics metrics = planner::summarize(request.setting, simulated);
  std::vector<planner::Warning> warnings = planner::cost_warnings(request.setting, simulated);
  return {std::move(simulated), std::move(found.proof), metrics, std::move(warnings)};
}

}  // namespace

ForTarget plan_for(const Target& target, const planner::Setting& setting, const Schedule& schedule,
                   const planner::Algorithm& all_reduce) {
  ForTarget out = {.schedule = schedule};
  const Behaviour behaviour = target.behaves(planned_as(setting, schedule), setting.workload);
  Prices prices(setting, schedule, all_reduce);
  const FusionRequest& request = prices.request_for(behaviour);
  Grouping found = best_groups(target, behaviour, request, planner::constraints_of(schedule.fusion));
  out.lower_bound_us = planner::lower_bound_us(request);
  if (target.forms != Forms::any_alike) {
    out.run = run_of(behaviour, request, std::move(found));
    return out;
  }
  out.schedule.compressor = request.transfers[found.groups.front().transfer].transfer().compressor;
  out.schedule.fusion.choices.clear();
  for (Group& group : found.groups) group.transfer = 0;
  Prices alike(setting, out.schedule, all_reduce);
  out.run = run_of(behaviour, alike.request_for(behaviour), std::move(found));
  return out;
}

}  // namespace scenarios
