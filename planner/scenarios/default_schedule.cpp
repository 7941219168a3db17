#include "planner/scenarios/default_schedule.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/scenarios/lacking_costs.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

using planner::Algorithm;
using planner::Schedule;

namespace {

/// The iteration of this schedule alone; infinite if it cannot run.
double iteration_us(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  Scenario alone = scenario;
  alone.schedules = {schedule};
  alone.workers = {workers};
  alone.job.reset();
  try {
    return run(alone, {.samples = 0, .may_skip_simulation = true}).entries.front().metrics.iteration_us;
  } catch (const core::InputError&) {
    return std::numeric_limits<double>::infinity();
  }
}

/// The schedule of a scenario that names only such that shard parameters: the first whose groups are searched
/// for, or else the first; none if the network lacks costs of all of them.
std::optional<Schedule> only_sharded(const Scenario& scenario) {
  std::optional<Schedule> out;
  if (!scenario.file.has("schedules")) return out;
  for (const Schedule& own : scenario.schedules) {
    if (!own.pipeline->shards_parameters(own.options)) return {};
    if (lacks_all_reduces(scenario.network, own)) continue;
    if (!out || (own.fusion.searches && !out->fusion.searches)) out = own;
  }
  return out;
}

/// A schedule without all-reduces.
Schedule with_halves(const Scenario& scenario) {
  if (scenario.file.has("schedules"))
    for (const Schedule& own : scenario.schedules)
      if (!lacks_all_reduces(scenario.network, own)) return own;
  return planner::read_schedule(core::Field::parse(R"({"name": "fsdp", "fusion": "optimal"})", "fsdp"));
}

}  // namespace

std::vector<Algorithm> all_reduces(const Scenario& scenario) {
  std::vector<Algorithm> out;
  for (const Schedule& schedule : scenario.schedules) {
    const Algorithm& algorithm = all_reduce(scenario, schedule);
    if (schedule.pipeline->algorithm == nullptr && std::ranges::find(out, algorithm) == out.end())
      out.push_back(algorithm);
  }
  return out;
}

Schedule default_schedule(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  const bool is_own = std::ranges::any_of(scenario.schedules,
                                          [&](const Schedule& other) { return other.name == schedule.name; });
  if (!is_own)
    if (auto sharded = only_sharded(scenario)) return *std::move(sharded);
  if (lacks_all_reduces(scenario.network, schedule)) return with_halves(scenario);
  const std::vector<Algorithm> offered = all_reduces(scenario);
  Schedule out = schedule;
  if (is_own || offered.empty() || offered == std::vector{scenario.all_reduce}) return out;
  out.all_reduce = offered.front();
  if (offered.size() == 1) return out;
  double best_us = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : offered) {
    Schedule tried = schedule;
    tried.all_reduce = algorithm;
    const double us = iteration_us(scenario, workers, tried);
    if (us >= best_us) continue;
    best_us = us;
    out = tried;
  }
  return out;
}

}  // namespace scenarios
