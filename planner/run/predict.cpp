#include "planner/run/predict.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "planner/run/cost_warnings.hpp"

namespace planner {

Run run(const Setting& setting, const Schedule& schedule) {
  Choice choice = choose(setting, schedule);
  Simulated simulated =
      simulate_groups(setting, schedule, std::move(choice.groups), std::move(choice.transfers));
  const Metrics metrics = summarize(setting, simulated);
  std::vector<Warning> warnings = std::move(choice.warnings);
  for (Warning& warning : cost_warnings(setting, simulated)) warnings.push_back(std::move(warning));
  if (schedule.options.stage == 2 && setting.conditions.accumulation_steps > 1) {
    const std::string text =
        "stage 2: frameworks reduce the gradients of every micro-batch; here only those of the last one "
        "travel, and whole gradients are held until then";
    warnings.push_back({.subject = text, .weight = 0, .text = text});
  }
  if ((schedule.options.shard_workers || schedule.options.shard_level) &&
      !simulated.program.has_channel_between() && setting.costs.workers() > 1) {
    const std::string text =
        fmt::format("{} workers: all of them are one shard group, so '{}' is plain sharding", metrics.workers,
                    core::printable(schedule.name));
    warnings.push_back({.subject = text, .weight = 0, .text = text});
  }
  return {std::move(simulated), std::move(choice.proof), metrics, std::move(warnings)};
}

}  // namespace planner
