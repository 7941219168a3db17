// The time of planning: wall clock, so printed and never compared.

#include <chrono>

#include "core/errors.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

/// The time of a whole prediction; labelled if a limit ended the search.
Values search_seconds(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const planner::Schedule schedule = request.schedule();
  const auto started = std::chrono::steady_clock::now();
  std::string label;
  try {
    (void)predict(scenario, workers, schedule);
  } catch (const core::EnvironmentError&) {
    label = "stopped after";
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  return {{label, took.count()}};
}

}  // namespace

std::vector<Quantity> searched_quantities() {
  return {{.name = "search_seconds",
           .summary = "wall clock of a schedule's planning and simulation",
           .keys = {"scenario", "workers", "schedule"},
           .measure = search_seconds,
           .is_wall_clock = true}};
}

}  // namespace validate
