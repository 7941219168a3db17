#include "planner/run/worker_report.hpp"

#include <algorithm>
#include <numeric>

#include "core/statistics.hpp"

namespace planner {
namespace {

using sim::Time;

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto rank = [&](std::size_t percent) { return values[core::nearest_rank(values.size(), percent)]; };
  return {.mean_us = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .p50_us = rank(50),
          .p95_us = rank(95),
          .p99_us = rank(99),
          .max_us = values.back()};
}

Spread iterations(const Lowered& lowered, const AllWorkers& all) {
  std::vector<double> lengths;
  lengths.reserve(all.marks.size() * all.busy.size());
  for (std::size_t mark = first_counted(lowered) + 1; mark < all.marks.size(); ++mark)
    for (std::size_t n = 0; n < all.busy.size(); ++n)
      lengths.push_back(sim::to_us(all.marks[mark][n] - all.marks[mark - 1][n]));
  return spread_of(std::move(lengths));
}

double us_of(Time time) { return sim::to_us(time); }
double us_of(const sim::TotalTime& time) { return time.us(); }

template <typename Times>
std::vector<WorkerTime> longest(const std::vector<Times>& times, double iterations) {
  constexpr std::size_t kMax = 5;
  std::vector<WorkerTime> out;
  for (std::size_t n = 0; n < times.size(); ++n)
    if (us_of(times[n]) > 0)
      out.push_back({.worker = static_cast<std::int64_t>(n), .us = us_of(times[n]) / iterations});
  std::ranges::stable_sort(out, [](const WorkerTime& a, const WorkerTime& b) { return a.us > b.us; });
  out.resize(std::min(out.size(), kMax));
  return out;
}

std::optional<CriticalShares> critical_shares(const AllWorkers& all) {
  if (!all.critical_path || all.critical_path->iterations == 0) return std::nullopt;
  const CriticalPath& path = *all.critical_path;
  const auto iterations = static_cast<double>(path.iterations);
  const Time computing = std::accumulate(path.computing.begin(), path.computing.end(), Time::zero());
  return CriticalShares{.computing_us = sim::to_us(computing) / iterations,
                        .communicating_us = sim::to_us(path.communicating) / iterations,
                        .untraced_us = sim::to_us(path.untraced) / iterations,
                        .workers = longest(path.computing, iterations),
                        .senders = longest(path.sending, iterations)};
}

Utilisation utilisation(const AllWorkers& all) {
  const double length = sim::to_us(all.use.length);
  const double computing = all.use.computing.us() / length / static_cast<double>(all.busy.size());
  return {.compute = std::min(1.0, computing),  // 1 but for rounding
          .channel = sim::to_us(all.use.communicating) / length,
          .links = all.use.links};
}

}  // namespace

std::optional<WorkerReport> report_workers(const Setting& setting, const Simulated& simulated) {
  const Conditions& conditions = setting.conditions;
  if (conditions.overlap.slows() || simulated.program.by_layer || setting.costs.workers() == 1)
    return std::nullopt;
  const bool has_list = !conditions.stragglers.empty() && conditions.worker_spread.value_or(0) == 0;
  if (!simulated.all_workers && !has_list) return std::nullopt;  // nobody knows which worker is slow
  if (!simulated.all_workers) return report_workers(setting, simulate_workers_of(setting, simulated));
  const AllWorkers& all = *simulated.all_workers;
  const auto count = static_cast<double>(counted(simulated.lowered));
  std::vector<double> waiting;
  for (const sim::TotalTime& time : all.waited) waiting.push_back(time.us() / count);
  return WorkerReport{.iteration = iterations(simulated.lowered, all),
                      .waiting = spread_of(std::move(waiting)),
                      .waited_for = longest(all.kept_waiting, count),
                      .utilisation = utilisation(all),
                      .critical_path = critical_shares(all)};
}

}  // namespace planner
