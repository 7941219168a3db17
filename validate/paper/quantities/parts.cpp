// Parts of an iteration that no other quantity covers: its update, its encoding and decoding.

#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

Values update_ms(const Request& request) {
  scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const planner::Schedule schedule = request.schedule();
  if (const auto parallel = request.find("parallel_tensor_operator"))
    scenario.conditions.parallel_tensor_operator = parallel->boolean();
  const double with_us = predict(scenario, workers, schedule).iteration_us;
  scenario.conditions.optimizer_us = 0;
  scenario.conditions.lars_us = 0;
  scenario.conditions.parallel_tensor_operator = false;
  return {{"", (with_us - predict(scenario, workers, schedule).iteration_us) / 1e3}};
}

Values coding_ms(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const planner::Metrics prediction = predict(scenario, request.workers(scenario), request.schedule());
  return {{"", (prediction.encode_us + prediction.decode_us) / 1e3}};
}

}  // namespace

std::vector<Quantity> part_quantities() {
  return {{"update_ms",
           "an iteration less one without the scenario's update",
           {"scenario", "workers", "schedule", "parallel_tensor_operator"},
           update_ms},
          {"coding_ms", "encoding and decoding", {"scenario", "workers", "schedule"}, coding_ms}};
}

}  // namespace validate
