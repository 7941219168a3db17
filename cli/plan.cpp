// fusewise plan: which gradients should travel together on one number of workers.

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "models/errors.hpp"
#include "models/files.hpp"
#include "planner/entries.hpp"
#include "scenarios/results_text.hpp"
#include "scenarios/run.hpp"

namespace cli {
namespace {

struct Options {
  std::string scenario;
  std::int64_t workers = 0;
  std::string schedule = "fusewise";
  std::string output;
  bool json = false;
};

/// One of the scenario's own schedules, or a named one.
planner::Schedule chosen_schedule(const Options& options, const scenarios::Scenario& scenario) {
  for (const planner::Schedule& schedule : scenario.schedules)
    if (schedule.name == options.schedule) return schedule;
  const std::vector<std::string_view> known = planner::names(planner::presets());
  if (std::find(known.begin(), known.end(), options.schedule) == known.end())
    throw models::InputError(fmt::format("--schedule: expected one of the scenario's, or of {}, got '{}'{}",
                                         fmt::join(known, ", "), models::printable(options.schedule),
                                         models::suggestion(options.schedule, known)));
  return planner::preset_schedule(options.schedule);
}

/// What --workers says, or the scenario's only number.
std::int64_t chosen_workers(const Options& options, const scenarios::Scenario& scenario) {
  if (options.workers > 0) return options.workers;
  if (scenario.workers.size() == 1) return scenario.workers.front();
  throw models::InputError(
      fmt::format("--workers: expected a number, as the scenario has {} of them ({}), got nothing",
                  scenario.workers.size(), fmt::join(scenario.workers, ", ")));
}

void plan(const Options& options) {
  const scenarios::Scenario scenario = scenarios::read_scenario(models::Field::load(options.scenario));
  const planner::Schedule schedule = chosen_schedule(options, scenario);
  const scenarios::Planned planned = scenarios::plan(scenario, chosen_workers(options, scenario), schedule);
  const std::string text = planner::plan_text(planned.plan);
  if (!options.output.empty()) models::write_file(options.output, text);
  warn(planned.warnings);
  print(options.output.empty() || options.json ? text : scenarios::plan_table(planned.plan));
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "Plan which gradients travel together");
  command->footer("Example: fusewise plan scenarios/resnet50-v100.json --workers 64 -o resnet50.plan.json");
  command->add_option("SCENARIO", options->scenario, "a fusewise.scenario file")->required();
  command
      ->add_option("--workers", options->workers,
                   "number of workers to plan for (default: the scenario's only one)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command
      ->add_option("--schedule", options->schedule,
                   "the schedule that makes the plan: one of the scenario's, or a named one")
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->output,
                   "write the plan to this file and print a summary (default: print the plan)")
      ->check(file_name());
  command->add_flag("--json", options->json, "print the plan itself, with --output too");
  command->callback([options] { plan(*options); });
}

}  // namespace cli
