// One number of workers under the conditions of a scenario.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/conditions.hpp"
#include "planner/costs.hpp"
#include "planner/pipeline.hpp"
#include "planner/ways.hpp"
#include "planner/workload.hpp"

namespace planner {

struct Schedule;

/// Refers to profile and network, which must outlive it. Throws NoCost when the scenario asks for what the
/// network has no cost for, or for more time than can be simulated.
struct Setting {
  Setting(const traces::Profile& profile, const traces::Network& its_network, std::int64_t workers,
          const Algorithm& all_reduce, Conditions given);

  const traces::Network* network;
  Conditions conditions;
  double slowdown;  ///< of the slowest worker
  /// What every worker computes: with closed costs collectives start when the slowest worker has issued them,
  /// so without jitter the slowest alone decides.
  Workload workload;
  Costs costs;
  Extras extras;
};

/// What is computed in an iteration by a worker `slowdown` times as slow; throws NoCost where all iterations
/// together would not fit the clock.
double checked_compute_us(const traces::Profile& profile, const Conditions& conditions, double slowdown);

/// So many microseconds do not fit the clock.
[[noreturn]] void too_long(double us);

/// The ways in which a schedule's groups may travel; the first is its own.
std::vector<WayCost> make_ways(const Setting& setting, const Schedule& schedule);

}  // namespace planner
