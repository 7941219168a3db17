// A scenario: which model on which network, with how many workers, under which schedules.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/job/conditions.hpp"
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
  std::vector<std::string> warnings;
  core::Field file;  ///< where it was read from, to name places in it
};

/// Reads and checks `fusewise.scenario` and the files it names, all but its key `sweep`, which is read by
/// sweep::read_sweep(); throws InputError.
Scenario read_scenario(const core::Field& field);

/// That the topology has a place for, where it is written out.
std::int64_t placed_workers(const planner::Conditions& conditions);

/// The scenario of a phase of its job alone, in its later epochs.
Scenario scenario_of(const Scenario& scenario, const Phase& phase);

/// On which its iterations can be simulated: where workers differ each is, in bounded memory and time.
double max_workers(const Scenario& scenario);

/// About what the scenario leaves out, and what it says to no effect: stragglers, failures and slow links of
/// workers that are in none of the numbers of workers are more likely a slip than a wish.
std::vector<std::string> warnings_about(const Scenario& scenario);

/// A schedule's algorithm where it has its own, else the scenario's.
const planner::Algorithm& all_reduce(const Scenario& scenario, const planner::Schedule& schedule);

}  // namespace scenarios
