// Results of `fusewise simulate` for a schedule, and its speed-up over others.

#include <algorithm>
#include <limits>

#include "planner/scenarios/run.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

using core::Field;
using planner::Metrics;

const std::vector<std::string_view> of_schedule = {"scenario", "workers", "schedule",
                                                   "network",  "profile", "collectives"};

Metrics predicted(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  return predict(scenario, request.workers(scenario), request.schedule());
}

template <double Metrics::*Member>
Values number(const Request& request) {
  return {{"", predicted(request).*Member}};
}

template <double Metrics::*Member>
Values milliseconds(const Request& request) {
  return {{"", predicted(request).*Member / 1e3}};
}

Values groups(const Request& request) { return {{"", static_cast<double>(predicted(request).groups)}}; }

/// The iteration time of a schedule, or of the fastest of an array of them.
double min_iteration_us(const scenarios::Scenario& scenario, std::int64_t workers, const Field& schedules) {
  const std::vector<Field> all = schedules.is_array() ? schedules.non_empty_items() : std::vector{schedules};
  double out = std::numeric_limits<double>::infinity();
  for (const Field& each : all)
    out = std::min(out, predict(scenario, workers, planner::read_schedule(each)).iteration_us);
  return out;
}

Values gain(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const scenarios::Scenario other =
      request.has("over_scenario") ? request.scenario("over_scenario") : scenario;
  const std::int64_t workers = request.workers(scenario);
  const double over = min_iteration_us(other, workers, request.at("over"));
  return {{"", over / min_iteration_us(scenario, workers, request.at("schedule"))}};
}

Values job_seconds(const Request& request) {
  scenarios::Scenario scenario = request.scenario();
  if (!scenario.job) request.at("scenario").expected("a scenario with a job", "one without");
  scenario.workers = {request.workers(scenario)};
  return {{"", scenarios::run(scenario, {.samples = 0}).jobs.front().seconds}};
}

}  // namespace

std::vector<Quantity> simulated_quantities() {
  std::vector<std::string_view> of_gain = of_schedule;
  of_gain.insert(of_gain.end(), {"over", "over_scenario"});
  return {
      {"iteration_ms", "of a schedule", of_schedule, milliseconds<&Metrics::iteration_us>},
      {"forward_ms", "of a schedule", of_schedule, milliseconds<&Metrics::forward_us>},
      {"backward_ms", "of a schedule", of_schedule, milliseconds<&Metrics::backward_us>},
      {"exposed_ms", "communication that nothing hides", of_schedule,
       milliseconds<&Metrics::exposed_communication_us>},
      {"communication_ms", "channel busy", of_schedule, milliseconds<&Metrics::communication_us>},
      {"encode_ms", "of a schedule", of_schedule, milliseconds<&Metrics::encode_us>},
      {"decode_ms", "of a schedule", of_schedule, milliseconds<&Metrics::decode_us>},
      {"throughput", "samples per second", of_schedule, number<&Metrics::throughput_samples_per_s>},
      {"speedup", "against one worker", of_schedule, number<&Metrics::speedup>},
      {"efficiency", "speedup / workers", of_schedule, number<&Metrics::scaling_efficiency>},
      {"bytes_sent", "by a worker in an iteration", of_schedule, number<&Metrics::bytes_sent_per_worker>},
      {"groups", "of a schedule", of_schedule, groups},
      {"gain", "iteration of `over` (or of the fastest of several) / that of `schedule`", of_gain, gain},
      {"job_seconds",
       "all of a scenario's job",
       {"scenario", "workers", "network", "collectives"},
       job_seconds},
  };
}

}  // namespace validate
