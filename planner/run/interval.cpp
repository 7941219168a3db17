#include "planner/run/interval.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/predict.hpp"
#include "planner/run/sampled_inputs.hpp"

namespace planner {
namespace {

double iteration_us(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan,
                    std::uint64_t sample) {
  const core::Profile profile = sampled(*setting.workload.profile, sample);
  const std::int64_t workers = setting.costs.workers();
  const core::Network network = sampled(*setting.network, workers, sample);
  const Setting then(profile, network, workers, setting.costs.algorithm(), setting.conditions);
  std::vector<TransferCost> transfers;
  transfers.reserve(plan.transfers.size());
  for (const TransferCost& cost : plan.transfers)
    transfers.emplace_back(network, workers, cost.transfer(), then.slowdown);
  return summarize(then, simulate_groups(then, schedule, plan.groups, std::move(transfers))).iteration_us;
}

/// The number of samples; fewer if each takes long.
std::int64_t sample_count(const Simulated& simulated) {
  constexpr double kTasks = 4e6;
  const double tasks = static_cast<double>(simulated.lowered.graph.tasks().size()) *
                       static_cast<double>(simulated.all_workers ? 64 : 1);
  return std::clamp(static_cast<std::int64_t>(kTasks / std::max(1.0, tasks)), std::int64_t{40},
                    std::int64_t{200});
}

}  // namespace

std::optional<Interval> interval(const Setting& setting, const Schedule& schedule, const Run& run) {
  if (!varies(*setting.workload.profile) && !varies(*setting.network, setting.costs.workers()))
    return std::nullopt;
  const std::int64_t samples = sample_count(run);
  std::vector<double> values;
  for (std::int64_t sample = 0; sample < samples; ++sample)
    values.push_back(iteration_us(setting, schedule, run, static_cast<std::uint64_t>(sample)));
  std::sort(values.begin(), values.end());
  if (values.front() == values.back() && values.front() == run.metrics.iteration_us)
    return std::nullopt;                                      // no input in use has a spread
  const auto first = static_cast<std::size_t>(samples / 40);  // 2.5 % of them, rounded down
  return Interval{.low_us = values[first], .high_us = values[values.size() - 1 - first], .samples = samples};
}

}  // namespace planner
