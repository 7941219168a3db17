#include "planner/run/predict.hpp"

#include <utility>

#include "planner/run/cost_warnings.hpp"

namespace planner {

Run run(const Setting& setting, const Schedule& schedule) {
  Choice choice = choose(setting, schedule);
  Simulated simulated =
      simulate_groups(setting, schedule, std::move(choice.groups), std::move(choice.transfers));
  const Metrics metrics = summarize(setting, simulated);
  std::vector<Warning> warnings = std::move(choice.warnings);
  for (Warning& warning : cost_warnings(setting, simulated)) warnings.push_back(std::move(warning));
  return {std::move(simulated), std::move(choice.proof), metrics, std::move(warnings)};
}

}  // namespace planner
