// A sweep: the product of its axes over a scenario, as numbered points.

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "planner/scenarios/scenario.hpp"
#include "planner/sweep/axes.hpp"

namespace sweep {

/// A point is one schedule on one number of workers under one combination of the other axes. Points are
/// numbered in the order of the product: the schedule varies fastest, then the workers, then the axes from
/// the last to the first.
struct Sweep {
  scenarios::Scenario base;
  std::vector<Axis> axes;  ///< in the order of the product; the last is always workers
  std::size_t points = 0;

  const Axis& workers() const { return axes.back(); }
  /// Number of points that differ only in workers and schedule.
  std::size_t points_per_combination() const { return workers().values.size() * base.schedules.size(); }
};

/// The index of a point on each axis.
std::vector<std::size_t> place(const Sweep& sweep, std::size_t point);

/// The scenario under one combination of all axes except workers, with all schedules.
scenarios::Scenario combined(const Sweep& sweep, std::size_t combination);

/// The same in place, where `of_base` is the sweep's base under any combination: copies only what axes
/// change.
void combine(const Sweep& sweep, std::size_t combination, scenarios::Scenario& of_base);

/// Reads a scenario with the key `sweep`. Checks in advance that the network has a cost for every schedule on
/// every number of workers and that the longest combination fits sim::Time. Throws InputError.
Sweep read_sweep(const core::Field& scenario);

/// Formats the size: "240 points (3 bandwidth_factor x 8 workers x 10 schedules)".
std::string size_text(const Sweep& sweep);

/// Everything that determines a sweep's rows, with fingerprints: {"profile", "9ae1..."}, ...
using Inputs = std::vector<std::pair<std::string, std::string>>;

/// The fingerprints of the scenario's text and of all files it names. Plan files are read again.
Inputs inputs(const Sweep& sweep, std::string_view scenario_text);

/// A 64-bit hash (FNV-1a) as 16 hexadecimal digits; detects accidental differences only.
std::string fingerprint(std::string_view text);

}  // namespace sweep
