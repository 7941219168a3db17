// Weak scaling of a schedule between two numbers of workers, with the same work per worker.

#include "core/limits.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

struct Endpoints {
  planner::Metrics from;
  planner::Metrics to;
};

Endpoints predict_ends(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const planner::Schedule schedule = request.schedule();
  const auto at = [&](std::string_view key) {
    return predict(scenario, request.at(key).integer(1, core::kMaxWorkers), schedule);
  };
  return {.from = at("from_workers"), .to = at("workers")};
}

Values weak_efficiency_percent(const Request& request) {
  const Endpoints ends = predict_ends(request);
  constexpr double kPercent = 100;
  return {{"", kPercent * ends.from.iteration_us / ends.to.iteration_us}};
}

Values communication_growth(const Request& request) {
  const Endpoints ends = predict_ends(request);
  return {{"", ends.to.communication_us / ends.from.communication_us}};
}

}  // namespace

std::vector<Quantity> weak_scaling_quantities() {
  const std::vector<std::string_view> keys = {"scenario", "from_workers", "workers", "schedule"};
  return {{"weak_efficiency_percent", "iteration on `from_workers` over that on `workers`", keys,
           weak_efficiency_percent},
          {"communication_growth", "of the channel's time, from `from_workers` to `workers`", keys,
           communication_growth}};
}

}  // namespace validate
