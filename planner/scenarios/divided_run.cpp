#include "planner/scenarios/divided_run.hpp"

#include <optional>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/cost/derived.hpp"
#include "planner/job/names.hpp"
#include "planner/run/derived_spread.hpp"
#include "planner/run/sampled_inputs.hpp"

namespace scenarios {

using planner::ParallelRun;
using planner::Schedule;

PartName part_name(const planner::Workload& workload) {
  return {workload.profile->layers.front().name, planner::tensor_name(workload, 0)};
}

GroupsByPart groups_by_part(const ParallelRun& run) {
  GroupsByPart out;
  for (const planner::ModelPart& part : run.parts)
    for (const planner::PartGroups& each : part.groups) out[part_name(each.workload)] = each.groups;
  return out;
}

Schedule with_groups(const Schedule& schedule, GroupsByPart groups) {
  Schedule out = schedule;
  out.fusion.kind = "plan";
  out.fusion.fuse = [groups = std::move(groups)](const planner::FusionRequest& request) {
    const auto found = groups.find(part_name(request.workload));
    if (found != groups.end()) return planner::Grouping(found->second);
    return planner::Grouping(planner::Groups{{.begin = 0, .end = request.workload.gradient_count()}});
  };
  return out;
}

ParallelRun run_divided(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  return planner::run_parallel(scenario.profile, scenario.network, workers, all_reduce(scenario, schedule),
                               scenario.conditions, schedule, *scenario.parallel);
}

Scenario with_change(const Scenario& scenario, const ParallelRun& run, const planner::Change& change) {
  if (!change.free_layers.empty() && scenario.parallel->stages.forward_us)
    throw core::Unsupported("no layer= where parallel.stages states the times of parts", "times");
  Scenario then = scenario;
  then.profile = planner::with_change(scenario.profile, change);
  then.conditions = planner::with_change(scenario.conditions, change);
  then.network = core::scaled(scenario.network, 1 / change.startup, 1 / change.bandwidth);
  planner::Stages& stages = then.parallel->stages;
  stages.layers.clear();
  for (const core::Profile& part : run.job->profiles)
    stages.layers.push_back(static_cast<std::int64_t>(part.layers.size()));
  stages.p2p_us /= change.bandwidth;
  for (std::optional<double>* us : {&stages.forward_us, &stages.backward_us})
    if (*us) **us /= change.compute;
  return then;
}

planner::Metrics what_if_divided(const Scenario& scenario, const Schedule& schedule, const ParallelRun& run,
                                 const planner::Change& change) {
  return run_divided(with_change(scenario, run, change), run.metrics.workers,
                     with_groups(schedule, groups_by_part(run)))
      .metrics;
}

bool has_spread(const Scenario& scenario, std::int64_t workers) {
  for (const std::int64_t measured : planner::measured_workers(scenario.network))
    if (planner::varies(scenario.network, measured)) return true;
  return planner::varies(scenario.profile) ||
         planner::varies(scenario.conditions, scenario.network, workers) ||
         (planner::has_measured_nodes(scenario.network) && workers > *scenario.network.levels.front().size);
}

std::optional<planner::Interval> interval_divided(const Scenario& scenario, const Schedule& schedule,
                                                  const ParallelRun& run, std::int64_t samples,
                                                  const std::function<void(std::int64_t)>& progress) {
  Scenario same_parts = with_change(scenario, run, {});
  same_parts.schedules.clear();  // copied in every sample, and not used there
  const Schedule same_groups = with_groups(schedule, groups_by_part(run));
  const auto sampled_us = [&](std::uint64_t sample) {
    Scenario then = same_parts;
    then.profile = planner::sampled(scenario.profile, sample);
    for (const std::int64_t measured : planner::measured_workers(scenario.network))
      then.network = planner::sampled(then.network, measured, sample);
    planner::add_sampled(then.network, {}, run.metrics.workers, {}, sample);
    then.conditions = planner::sampled(then.conditions, scenario.network, run.metrics.workers, sample);
    return run_divided(then, run.metrics.workers, same_groups).metrics.iteration_us;
  };
  return planner::interval_of(run.metrics.iteration_us, samples, sampled_us, progress);
}

}  // namespace scenarios
