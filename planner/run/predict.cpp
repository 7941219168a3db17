#include "planner/run/predict.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "planner/run/cost_warnings.hpp"

namespace planner {
namespace {

/// The warnings of a plan, after those of its choice.
std::vector<Warning> warnings_of(const Setting& setting, const Schedule& schedule,
                                 const CommunicationPlan& plan, std::vector<Warning> warnings) {
  for (Warning& warning : cost_warnings(setting, plan)) warnings.push_back(std::move(warning));
  if ((schedule.options.shard_workers || schedule.options.shard_level) &&
      !plan.program.has_channel_between() && setting.costs.workers() > 1) {
    const std::string text =
        fmt::format("{} workers: all of them are one shard group, so '{}' is plain sharding",
                    setting.costs.workers(), core::printable(schedule.name));
    warnings.push_back({.subject = text, .text = text});
  }
  return warnings;
}

/// Whether one worker represents all, in each iteration alike, and layers alone keep its device busy.
bool is_uniform(const Setting& setting, const FusionRequest& request) {
  const Conditions& conditions = setting.conditions;
  const bool has_spikes = std::ranges::any_of(request.transfers, &TransferCost::has_spikes);
  return !conditions.workers_differ() && conditions.stragglers.empty() && !conditions.overlap.slows() &&
         conditions.channels == 1 && !has_spikes && !setting.workload.profile->iteration;
}

}  // namespace

Run run(const Setting& setting, const Schedule& schedule) {
  Choice choice = choose(setting, schedule);
  Simulated simulated =
      simulate_groups(setting, schedule, std::move(choice.groups), std::move(choice.transfers));
  const Metrics metrics = summarize(setting, simulated);
  std::vector<Warning> warnings = warnings_of(setting, schedule, simulated, std::move(choice.warnings));
  return {std::move(simulated), std::move(choice.proof), metrics, std::move(warnings)};
}

std::optional<Prediction> predict_at_once(const Setting& setting, const Schedule& schedule) {
  FusionRequest request = request_of(setting, schedule);
  if (!is_uniform(setting, request) || !request.model().is_closed_form()) return std::nullopt;
  return within_clock([&] {
    Grouping found = schedule.fusion.fuse(request);
    if (setting.costs.workers() == 1)  // nothing is sent, so nothing waits for a tick
      for (Group& group : found.groups) group.tick = {};
    const Workload& workload = setting.workload;
    const sim::Time further = workload.forward_total + workload.backward_total;
    const sim::Time iteration =
        evaluate(request, found.groups) + (setting.conditions.accumulation_steps - 1) * further;
    Program program = request.program(found.groups.size());
    const CommunicationPlan plan = {.groups = std::move(found.groups),
                                    .transfers = std::move(request.transfers),
                                    .program = std::move(program)};
    check_run(setting, plan);
    return Prediction{.metrics = summarize(setting, plan, iteration),
                      .warnings = warnings_of(setting, schedule, plan, std::move(found.warnings))};
  });
}

}  // namespace planner
