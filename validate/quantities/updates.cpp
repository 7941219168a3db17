// What a scenario's update adds to an iteration, by the parallel tensor operator or without.

#include "validate/quantities.hpp"

namespace validate {
namespace {

Values update_ms(const Request& request) {
  scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const planner::Schedule schedule = request.schedule();
  if (const auto parallel = request.find("parallel_tensor_operator"))
    scenario.conditions.parallel_tensor_operator = parallel->boolean();
  const double with = predict(scenario, workers, schedule).iteration_us;
  scenario.conditions.optimizer_us = 0;
  scenario.conditions.lars_us = 0;
  scenario.conditions.parallel_tensor_operator = false;
  return {{"", (with - predict(scenario, workers, schedule).iteration_us) / 1e3}};
}

}  // namespace

std::vector<Quantity> update_quantities() {
  return {{"update_ms",
           "an iteration less one without the scenario's update",
           {"scenario", "workers", "schedule", "parallel_tensor_operator"},
           update_ms}};
}

}  // namespace validate
