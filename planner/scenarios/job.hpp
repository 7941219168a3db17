// A job: epochs over a data set in phases, each with a profile, a schedule and an input of its own. How long
// all of it takes, and what it costs.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/profile.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

/// What an iteration's input takes, overlapped with training or not.
struct PhaseInput {
  double first_epoch_us = 0;  ///< from the network file system, and decoded
  double later_us = 0;        ///< likewise, or from the cache that the first epoch has filled
  bool overlapped = true;
};

struct Phase {
  std::string name;
  std::int64_t epochs = 1;
  core::Profile profile;
  planner::Schedule schedule;
  PhaseInput input;
};

struct Job {
  std::int64_t samples = 1;  ///< of the data set: an epoch sees each once
  std::optional<double> price_per_worker_hour;
  std::vector<Phase> phases;
};

/// The key `job` of a scenario. A phase has the profile, schedule and input of `usual` unless it says
/// otherwise. Throws InputError.
Job read_job(const core::Field& field, const Phase& usual);

struct PhaseResult {
  std::string name;
  std::string schedule;
  std::int64_t epochs = 1;
  std::int64_t iterations_per_epoch = 1;  ///< the last one of an epoch may be short, and takes as long
  double first_epoch_iteration_us = 0;
  double iteration_us = 0;
  double seconds = 0;
};

struct JobResult {
  std::int64_t workers = 1;
  std::vector<PhaseResult> phases;
  double seconds = 0;
  std::optional<double> cost;  ///< in the unit of the price
};

}  // namespace scenarios
