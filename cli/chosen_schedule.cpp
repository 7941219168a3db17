#include "cli/chosen_schedule.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/ignoring_case.hpp"

namespace cli {

Option add_plan_options(const Command& command, std::int64_t& workers, const std::string& default_workers,
                        std::string& schedule) {
  command
      .add_option("--workers", workers,
                  fmt::format("number of workers to plan for (default: {})", default_workers))
      .check(range<std::int64_t>(1, 1'000'000));
  return command
      .add_option("--schedule", schedule, "schedule that makes the plan: one of the scenario, or a named one")
      .show_default();
}

planner::Schedule chosen_schedule(const std::string& name, const scenarios::Scenario& scenario) {
  std::vector<std::string_view> known;
  for (const planner::Preset& preset : planner::presets())
    if (!preset.needs_compressor) known.push_back(preset.name);
  std::vector<std::string_view> all = known;
  for (const planner::Schedule& schedule : scenario.schedules) all.push_back(schedule.name);
  const std::string found = core::ignoring_case(name, all);
  for (const planner::Schedule& schedule : scenario.schedules)
    if (schedule.name == found) return schedule;
  if (std::ranges::find(known, found) == known.end())
    throw core::InputError(fmt::format("--schedule: expected one of the scenario's, or of {}, got '{}'{}",
                                       fmt::join(known, ", "), core::printable(name),
                                       core::suggestion(name, known)));
  return planner::preset_schedule(found);
}

planner::Schedule only_sharded_schedule(const scenarios::Scenario& scenario) {
  std::vector<const planner::Schedule*> found;
  std::vector<std::string> names;
  for (const planner::Schedule& schedule : scenario.schedules) {
    if (!schedule.pipeline->shards_parameters(schedule.options)) continue;
    found.push_back(&schedule);
    names.push_back(fmt::format("'{}'", core::printable(schedule.name)));
  }
  if (found.size() == 1) return *found.front();
  for (const planner::Schedule* schedule : found)
    if (schedule->fusion.searches) return *schedule;
  throw core::InputError(
      names.empty() ? "--schedule: expected one that shards parameters, as the scenario has none, got nothing"
                    : fmt::format("--schedule: expected one of {}, which shard parameters, got nothing",
                                  fmt::join(names, ", ")));
}

planner::Schedule schedule_of_plan(const planner::PlanFile& plan, const core::Field& file,
                                   const std::string& name) {
  const nlohmann::ordered_json fusion = {{"kind", "plan"},
                                         {"file", std::filesystem::absolute(file.source()).string()}};
  return {.name = name,
          .pipeline = &planner::pipeline(plan.pipeline),
          .options = plan.options,
          .fusion = planner::read_fusion(core::Field::parse(fusion.dump(), file.source())),
          .all_reduce = plan.all_reduce,
          .compressor = plan.compressor,
          .selective = plan.selective};
}

}  // namespace cli
