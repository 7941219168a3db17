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

/// The conditions on this number of workers: a spread of their speeds becomes a straggler, the expected
/// slowest of them. The spread stays, so that another one can take its place.
Conditions on_workers(Conditions conditions, std::int64_t workers);

/// Refers to the profile and the network, which must outlive it. Throws Unsupported if the network lacks a
/// required cost, or if times exceed what can be simulated.
struct Setting {
  Setting(const core::Profile& profile, const core::Network& its_network, std::int64_t workers,
          const Algorithm& all_reduce, Conditions given);

  const core::Network* network;
  Conditions conditions;
  double slowdown;  ///< slowdown of the slowest worker
  /// The compute of every worker. With closed costs a collective starts when the slowest worker has issued
  /// it, so without jitter the slowest worker represents all.
  Workload workload;
  Costs costs;
  Extras extras;
};

/// The compute time per iteration of a worker with this slowdown; throws Unsupported if all iterations
/// together exceed the range of sim::Time.
double checked_compute_us(const core::Profile& profile, const Conditions& conditions, double slowdown);

/// What the host of the slowest worker takes for an iteration without ever waiting for the device; 0 where it
/// waits, or where that is not known. No iteration is shorter.
double host_us(const Setting& setting);

/// Throws Unsupported: this many microseconds exceed the range of sim::Time.
[[noreturn]] void too_long(double us);

/// Returns the result of `work`; throws Unsupported if a time in it exceeds the range of sim::Time.
template <typename Work>
auto within_clock(const Work& work) {
  try {
    return work();
  } catch (const sim::TooLong& problem) {
    too_long(problem.us);
  }
}

/// The slowdown of each worker relative to the profile, without jitter.
std::vector<double> slowdowns(const Setting& setting);

/// The costs of a transfer in a setting, which must outlive them. Throws Unsupported.
TransferCost cost_of(const Setting& setting, Transfer transfer);

/// The transfers available to groups: `own`, and `own` as modified by each choice, without duplicates.
std::vector<TransferCost> make_transfers(const Setting& setting, const Transfer& own,
                                         std::span<const TransferChoice> choices);

}  // namespace planner
