#include "cli/chosen_schedule.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"

namespace cli {

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

}  // namespace cli
