#include "scenarios/run.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "planner/make_plan.hpp"
#include "planner/slices.hpp"

namespace scenarios {
namespace {

using planner::Schedule;
using planner::Setting;

/// What the network or the clock cannot give, as an error about the scenario's workers.
[[noreturn]] void refuse(const Scenario& scenario, std::int64_t workers, const planner::NoCost& problem) {
  const models::Field all = scenario.file.at("workers");
  if (!all.is_array()) all.expected(problem.expected(), problem.got());
  const auto at = std::find(scenario.workers.begin(), scenario.workers.end(), workers);
  if (at == scenario.workers.end()) all.expected(problem.expected(), problem.got());
  all.items()[static_cast<std::size_t>(at - scenario.workers.begin())].expected(problem.expected(),
                                                                                problem.got());
}

/// The settings of one number of workers, made when first asked for: schedules may differ in their
/// all-reduce.
class Settings {
 public:
  Settings(const Scenario& scenario, std::int64_t workers) : scenario_(scenario), workers_(workers) {}

  const Setting& of(const Schedule& schedule) {
    const planner::Algorithm& algorithm = all_reduce(scenario_, schedule);
    for (const auto& [known, setting] : made_)
      if (known == algorithm) return *setting;
    made_.emplace_back(algorithm, std::make_unique<Setting>(scenario_.profile, scenario_.network, workers_,
                                                            algorithm, scenario_.conditions));
    return *made_.back().second;
  }

 private:
  const Scenario& scenario_;
  std::int64_t workers_;
  std::vector<std::pair<planner::Algorithm, std::unique_ptr<Setting>>> made_;
};

void add_warnings(std::vector<std::string>& all, const std::vector<std::string>& more) {
  for (const std::string& warning : more)
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
}

}  // namespace

Results run(const Scenario& scenario, const Progress& progress) {
  Results results = {.scenario = scenario.name, .warnings = scenario.warnings, .entries = {}};
  const std::size_t total = scenario.workers.size() * scenario.schedules.size();
  for (const std::int64_t workers : scenario.workers) {
    Settings settings(scenario, workers);
    for (const Schedule& schedule : scenario.schedules) {
      try {
        planner::Run run = planner::run(settings.of(schedule), schedule);
        add_warnings(results.warnings, run.warnings);
        results.entries.push_back({.schedule = schedule.name,
                                   .pipeline = std::string(schedule.pipeline->name),
                                   .fusion = schedule.fusion.kind,
                                   .prediction = run.prediction});
      } catch (const planner::NoCost& problem) {
        refuse(scenario, workers, problem);
      }
      if (progress) progress(results.entries.size(), total);
    }
  }
  return results;
}

std::string timeline(const Scenario& scenario, std::int64_t workers) {
  std::vector<traces::Track> tracks;
  std::vector<traces::Slice> slices;
  Settings settings(scenario, workers);
  try {
    for (const Schedule& schedule : scenario.schedules) {
      const Setting& setting = settings.of(schedule);
      const std::string_view shown = scenario.conditions.stragglers.empty() ? "each" : "the slowest";
      const std::string process = fmt::format("{}: {} of {} workers", schedule.name, shown, workers);
      planner::add_slices(setting, planner::run(setting, schedule), process, tracks, slices);
    }
  } catch (const planner::NoCost& problem) {
    refuse(scenario, workers, problem);
  }
  return traces::chrome_trace(tracks, slices);
}

Planned plan(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  try {
    const Setting setting(scenario.profile, scenario.network, workers, all_reduce(scenario, schedule),
                          scenario.conditions);
    const planner::Run run = planner::run(setting, schedule);
    return {.plan = planner::make_plan(setting, schedule, run), .warnings = run.warnings};
  } catch (const planner::NoCost& problem) {
    refuse(scenario, workers, problem);
  }
}

}  // namespace scenarios
