#include "planner/run/interval.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/derived_spread.hpp"
#include "planner/run/predict.hpp"
#include "planner/run/sampled_inputs.hpp"

namespace planner {
namespace {

std::vector<DerivedRange> derived_ranges(const Setting& setting) {
  return planner::derived_ranges(*setting.network, setting.costs.workers(), setting.costs.algorithm());
}

bool has_measured_spread(const Setting& setting) {
  const std::int64_t workers = setting.costs.workers();
  return varies(*setting.workload.profile) || varies(*setting.network, workers) ||
         varies(setting.conditions, *setting.network, workers);
}

double iteration_us(const Setting& setting, const std::vector<DerivedRange>& derived,
                    const Schedule& schedule, const CommunicationPlan& plan, std::uint64_t sample) {
  const core::Profile profile = sampled(*setting.workload.profile, sample);
  const std::int64_t workers = setting.costs.workers();
  core::Network network = sampled(*setting.network, workers, sample);
  add_sampled(network, derived, workers, setting.costs.algorithm(), sample);
  const Setting then(profile, network, workers, setting.costs.algorithm(),
                     sampled(setting.conditions, *setting.network, workers, sample));
  std::vector<TransferCost> transfers;
  transfers.reserve(plan.transfers.size());
  for (const TransferCost& cost : plan.transfers) transfers.push_back(cost_of(then, cost.transfer()));
  return summarize(then, simulate_groups(then, schedule, plan.groups, std::move(transfers), false))
      .iteration_us;
}

}  // namespace

bool has_spread(const Setting& setting) {
  return has_measured_spread(setting) || !derived_ranges(setting).empty();
}

double work_of(const Setting& setting, const Simulated& simulated) {
  constexpr double kSample = 8000;  // inputs drawn and costs worked out, of a job of any size
  constexpr double kTask = 120;     // lowered and simulated
  constexpr double kTime = 15;      // of a task on one worker
  const auto tasks = static_cast<double>(simulated.lowered.graph.tasks().size());
  if (!simulated.all_workers) return kSample + kTask * tasks;
  return kSample + tasks * (kTask + kTime * static_cast<double>(setting.costs.workers())) +
         simulated.all_workers->message_work;
}

std::optional<Interval> interval_of(double iteration_us, std::int64_t samples,
                                    const std::function<double(std::uint64_t)>& sampled_us,
                                    const std::function<void(std::int64_t)>& progress) {
  std::vector<double> by_sample;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    by_sample.push_back(sampled_us(static_cast<std::uint64_t>(sample)));
    if (progress) progress(sample + 1);
  }
  std::vector<double> sorted = by_sample;
  std::ranges::sort(sorted);
  if (sorted.front() == sorted.back() && sorted.front() == iteration_us)
    return std::nullopt;                                      // no input in use has a spread
  const auto first = static_cast<std::size_t>(samples / 40);  // 2.5 % of them, rounded down
  return Interval{.low_us = std::min(sorted[first], iteration_us),
                  .high_us = std::max(sorted[sorted.size() - 1 - first], iteration_us),
                  .samples = samples,
                  .sampled_us = std::move(by_sample)};
}

std::optional<Interval> interval(const Setting& setting, const Schedule& schedule, const Run& run,
                                 std::int64_t samples, const std::function<void(std::int64_t)>& progress) {
  const std::vector<DerivedRange> derived = derived_ranges(setting);
  if (derived.empty() && !has_measured_spread(setting)) return std::nullopt;
  const auto sampled_us = [&](std::uint64_t sample) {
    return iteration_us(setting, derived, schedule, run, sample);
  };
  return interval_of(run.metrics.iteration_us, samples, sampled_us, progress);
}

double slower_share(const Interval& one, const Interval& other) {
  const std::size_t common = std::min(one.sampled_us.size(), other.sampled_us.size());
  std::size_t slower = 0;
  for (std::size_t i = 0; i < common; ++i)
    if (one.sampled_us[i] > other.sampled_us[i]) ++slower;
  return static_cast<double>(slower) / static_cast<double>(common);
}

}  // namespace planner
