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
  std::vector<Axis> axes;  ///< in the order of the product; workers, the last, is always there
  std::size_t points = 0;

  const Axis& workers() const { return axes.back(); }
  /// Points that differ in workers and schedule alone.
  std::size_t points_per_combination() const { return workers().values.size() * base.schedules.size(); }
};

/// Where a point stands on each axis.
std::vector<std::size_t> place(const Sweep& sweep, std::size_t point);

/// The scenario under one combination of all axes but the workers, with all schedules.
scenarios::Scenario combined(const Sweep& sweep, std::size_t combination);

/// Reads a scenario with a key `sweep`, and checks before anything runs that the network has a cost for every
/// schedule on every number of workers, and that the longest combination fits the clock. Throws InputError.
Sweep read_sweep(const core::Field& scenario);

/// "240 points (3 bandwidth_factor x 8 workers x 10 schedules)"
std::string size_text(const Sweep& sweep);

/// Everything that decides a sweep's rows, each with a fingerprint: {"profile", "9ae1..."}, ...
using Inputs = std::vector<std::pair<std::string, std::string>>;

/// Of the scenario's text and of all files that it names. Files of plans are read again.
Inputs inputs(const Sweep& sweep, std::string_view scenario_text);

/// 64 bits that tell texts apart that differ by accident, as 16 hexadecimal digits (FNV-1a).
std::string fingerprint(std::string_view text);

}  // namespace sweep
