// A scenario: a model on a network with numbers of workers and schedules.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/job/conditions.hpp"
#include "planner/parallel/parallel.hpp"
#include "planner/scenarios/job.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

struct Scenario {
  std::string name;
  core::Profile profile;
  core::Network network;
  std::vector<std::int64_t> workers;
  std::vector<planner::Schedule> schedules;
  planner::Algorithm all_reduce;
  planner::Conditions conditions;
  std::optional<Job> job;
  std::optional<planner::Parallel> parallel;  ///< set if it is more than data-parallel
  std::vector<std::string> warnings;
  core::Field file;  ///< the source, for naming places in messages
};

/// Reads and checks `fusewise.scenario` and the files it names, except for its key `sweep`, which
/// sweep::read_sweep() reads; throws InputError. What runs workers that are all alike does not take the key
/// `parallel`.
Scenario read_scenario(const core::Field& field, bool takes_parallel = false);

/// The number of workers that a topology given link by link has places for.
std::int64_t placed_workers(const planner::Conditions& conditions);

/// The scenario of a single phase of its job, in its later epochs.
Scenario scenario_of(const Scenario& scenario, const Phase& phase);

/// The greatest number of workers that can be simulated. If workers differ, each is simulated, in bounded
/// memory and time.
double max_workers(const Scenario& scenario);

/// The overlap measured with the profile of a scenario's file, for scenarios that do not set it.
planner::Overlap overlap_of_profile(const core::Field& scenario);

/// Whether the schedule can be simulated under these conditions.
bool can_run(const planner::Conditions& conditions, const planner::Schedule& schedule);

/// Whether a run under these conditions takes the overlap measured with the profile.
bool can_slow(const planner::Conditions& conditions);

/// Warnings about aspects that the scenario omits and settings without effect: stragglers, failures and slow
/// links of workers that no number of workers includes are probably mistakes.
std::vector<std::string> warnings_about(const Scenario& scenario);

/// The schedule's algorithm if it has one, otherwise the scenario's.
const planner::Algorithm& all_reduce(const Scenario& scenario, const planner::Schedule& schedule);

}  // namespace scenarios
