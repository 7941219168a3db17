// Loads a scenario, simulates it and plans for its largest number of workers.

#include <cstdio>
#include <exception>

#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const scenarios::Scenario scenario = scenarios::read_scenario(core::Field::load(argv[1]));
    std::fputs(scenarios::results_table(scenarios::run(scenario)).c_str(), stdout);
    const planner::Schedule schedule = planner::preset_schedule("fusewise");
    const scenarios::Planned planned = scenarios::plan(scenario, scenario.workers.back(), schedule);
    std::fputs(scenarios::plan_table(planned.plan).c_str(), stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
