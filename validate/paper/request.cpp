#include "validate/paper/request.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/estimate/estimated_profile.hpp"
#include "core/limits.hpp"
#include "planner/scenarios/run.hpp"

namespace validate {

using core::Field;

Request::Request(const Paper& paper, Field quantity, std::map<std::string, Field> keys)
    : paper_(&paper), quantity_(std::move(quantity)), keys_(std::move(keys)) {}

std::optional<Field> Request::find(std::string_view key) const {
  const auto found = keys_.find(std::string(key));
  return found == keys_.end() ? quantity_.find(key) : found->second;
}

Field Request::at(std::string_view key) const {
  const std::optional<Field> found = find(key);
  return found ? *found : quantity_.at(key);
}

double Request::number(std::string_view key) const {
  constexpr double kLargest = 1e15;
  return at(key).number(-kLargest, kLargest);
}

double Request::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::int64_t Request::integer(std::string_view key, std::int64_t otherwise) const {
  const std::optional<Field> found = find(key);
  return found ? found->integer(0, core::kMaxWorkers * 1'000) : otherwise;
}

namespace {

/// Whether a quantity is what predict() returns.
bool is_simulated(std::string_view kind) {
  constexpr std::array<std::string_view, 7> kKinds = {
      "iteration_ms", "forward_ms", "backward_ms", "exposed_ms", "communication_ms", "throughput", "groups"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

scenarios::Scenario read_named(const Paper& paper, const Field& field) {
  std::vector<std::string_view> names;
  for (const NamedScenario& each : paper.scenarios) names.push_back(each.name);
  const std::string name = field.one_of(names);
  const auto found = std::ranges::find(paper.scenarios, name, &NamedScenario::name);
  try {
    return scenarios::read_scenario(found->file, true);
  } catch (const core::InputError& error) {
    // The error location is in the patched file; the cause may be in the patch.
    found->at.expected("a scenario", fmt::format("one that is refused ({})", error.what()));
  }
}

}  // namespace

scenarios::Scenario Request::scenario(std::string_view key) const {
  scenarios::Scenario out = read_named(*paper_, at(key));
  if (out.parallel && !is_simulated(quantity_.at("kind").text()))
    at(key).expected("a scenario without the key parallel, as only simulations know it");
  if (const auto network = find("network")) out.network = core::read_network_reference(*network);
  if (const auto profile = find("profile")) out.profile = core::read_or_estimate_profile(*profile);
  if (const auto collectives = find("collectives")) out.all_reduce = planner::read_collectives(*collectives);
  return out;
}

std::int64_t Request::workers(const scenarios::Scenario& scenario) const {
  if (const auto workers = find("workers")) return workers->integer(1, core::kMaxWorkers);
  if (scenario.workers.size() != 1) return at("workers").integer(1, core::kMaxWorkers);  // reports the key
  return scenario.workers.front();
}

std::vector<std::int64_t> Request::all_workers(const scenarios::Scenario& scenario) const {
  const auto workers = find("workers");
  if (!workers) return scenario.workers;
  if (!workers->is_array()) return {workers->integer(1, core::kMaxWorkers)};
  std::vector<std::int64_t> out;
  for (const Field& each : workers->non_empty_items()) out.push_back(each.integer(1, core::kMaxWorkers));
  return out;
}

planner::Schedule Request::schedule(std::string_view key) const { return planner::read_schedule(at(key)); }

planner::Metrics predict(scenarios::Scenario scenario, std::int64_t workers,
                         const planner::Schedule& schedule) {
  scenario.workers = {workers};
  scenario.schedules = {schedule};
  scenario.job.reset();
  return scenarios::run(scenario, {.samples = 0}).entries.front().metrics;
}

}  // namespace validate
