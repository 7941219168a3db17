// One number of workers under the conditions of a scenario.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost/costs.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/workload.hpp"

namespace planner {

/// Refers to profile and network, which must outlive it. Throws Unsupported when the scenario asks for what
/// the network has no cost for, or for more time than can be simulated.
struct Setting {
  Setting(const core::Profile& profile, const core::Network& its_network, std::int64_t workers,
          const Algorithm& all_reduce, Conditions given);

  const core::Network* network;
  Conditions conditions;
  double slowdown;  ///< of the slowest worker
  /// What every worker computes: with closed costs collectives start when the slowest worker has issued them,
  /// so without jitter the slowest alone decides.
  Workload workload;
  Costs costs;
  Extras extras;
};

/// What is computed in an iteration by a worker `slowdown` times as slow; throws Unsupported where all
/// iterations together would not fit the clock.
double checked_compute_us(const core::Profile& profile, const Conditions& conditions, double slowdown);

/// So many microseconds do not fit the clock.
[[noreturn]] void too_long(double us);

/// How much slower each worker is than the profile says, nothing jittering.
std::vector<double> slowdowns(const Setting& setting);

/// The ways in which groups may travel: `own`, and what the choices make of it, each once.
std::vector<TransferCost> make_transfers(const Setting& setting, const Transfer& own,
                                         std::span<const TransferChoice> choices);

}  // namespace planner
