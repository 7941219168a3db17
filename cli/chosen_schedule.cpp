#include "cli/chosen_schedule.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"

namespace cli {

void add_plan_options(const Command& command, std::int64_t& workers, const std::string& default_workers,
                      std::string& schedule) {
  command
      .add_option("--workers", workers,
                  fmt::format("number of workers to plan for (default: {})", default_workers))
      .check(range<std::int64_t>(1, 1'000'000));
  command
      .add_option("--schedule", schedule, "schedule that makes the plan: one of the scenario, or a named one")
      .show_default();
}

planner::Schedule chosen_schedule(const std::string& name, const scenarios::Scenario& scenario) {
  for (const planner::Schedule& schedule : scenario.schedules)
    if (schedule.name == name) return schedule;
  std::vector<std::string_view> known;
  for (const planner::Preset& preset : planner::presets())
    if (!preset.needs_compressor) known.push_back(preset.name);
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw core::InputError(fmt::format("--schedule: expected one of the scenario's, or of {}, got '{}'{}",
                                       fmt::join(known, ", "), core::printable(name),
                                       core::suggestion(name, known)));
  return planner::preset_schedule(name);
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
