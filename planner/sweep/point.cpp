#include "planner/sweep/point.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"

namespace sweep {
namespace {

using nlohmann::ordered_json;

/// The number of axes besides those that columns of `simulate` already hold.
std::size_t own_axes(const Sweep& sweep) { return sweep.axes.size() - 1; }

std::string csv_row(const Sweep& sweep, std::size_t point, const scenarios::Results& results) {
  const std::vector<std::size_t> at = place(sweep, point);
  std::string out = fmt::to_string(point);
  for (std::size_t i = 0; i < own_axes(sweep); ++i) out += ',' + text(sweep.axes[i], at[i]);
  return out + ',' + scenarios::csv_row(results.entries.front());
}

ordered_json value(const Axis& axis, std::size_t index) {
  const double value = axis.values[index];
  return is_whole(axis.quantity) ? ordered_json(static_cast<std::int64_t>(value)) : ordered_json(value);
}

std::string json_row(const Sweep& sweep, std::size_t point, const scenarios::Results& results) {
  const std::vector<std::size_t> at = place(sweep, point);
  ordered_json out = {{"point", point}};
  for (std::size_t i = 0; i < own_axes(sweep); ++i)
    out[std::string(name(sweep.axes[i].quantity))] = value(sweep.axes[i], at[i]);
  const ordered_json whole = ordered_json::parse(results_json(results));
  for (const auto& [key, number] : whole.at("results").at(0).items()) out[key] = number;
  out["warnings"] = results.warnings;
  return out.dump();
}

}  // namespace

std::string_view name(Rows rows) { return rows == Rows::csv ? "csv" : "json-lines"; }

std::string header(const Sweep& sweep, Rows rows) {
  if (rows == Rows::json_lines) return "";
  std::string out = "point";
  for (std::size_t i = 0; i < own_axes(sweep); ++i) out += fmt::format(",{}", name(sweep.axes[i].quantity));
  return out + ',' + scenarios::csv_header(sweep.base.conditions.memory.has_value(), false);
}

Record Computer::compute(std::size_t point) {
  const std::size_t combination = point / sweep_.points_per_combination();
  if (combination_ != combination) {
    combine(sweep_, combination, scenario_);
    scenario_.warnings.clear();  // these concern the sweep, not one point
    schedules_ = std::exchange(scenario_.schedules, {});
    combination_ = combination;
  }
  const std::vector<std::size_t> at = place(sweep_, point);
  scenario_.workers = {static_cast<std::int64_t>(sweep_.workers().values[at.back()])};
  scenario_.schedules = {schedules_[point % schedules_.size()]};
  try {
    scenarios::Results results = scenarios::run(scenario_, {.samples = 0, .may_skip_simulation = true});
    std::string row = rows_ == Rows::csv ? csv_row(sweep_, point, results) : json_row(sweep_, point, results);
    return {.row = std::move(row), .warnings = std::move(results.warnings)};
  } catch (const core::InputError& error) {
    throw core::InputError(fmt::format("{} (point {} of the sweep)", error.what(), point));
  }
}

}  // namespace sweep
