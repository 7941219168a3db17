// A job: epochs over a data set in phases, each with its own profile, schedule and input. Computes the time
// and cost of the whole job.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/profile.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

/// The input time of an iteration, overlapped with training or not.
struct PhaseInput {
  double first_epoch_us = 0;  ///< from the network file system, including decoding
  double later_us = 0;        ///< from the network file system or from the cache that the first epoch filled,
                              ///< including decoding
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
  std::int64_t samples = 1;  ///< in the data set; an epoch processes each once
  std::optional<double> price_per_worker_hour;
  std::vector<Phase> phases;
};

/// Reads the key `job` of a scenario. A phase has the profile, schedule and input of `usual` unless it sets
/// its own. Throws InputError.
Job read_job(const core::Field& field, const Phase& usual);

struct PhaseResult {
  std::string name;
  std::string schedule;
  std::int64_t epochs = 1;
  std::int64_t iterations_per_epoch = 1;  ///< rounded up: a short last iteration takes full time
  double first_epoch_iteration_us = 0;
  double iteration_us = 0;
  double seconds = 0;
};

struct JobResult {
  std::int64_t workers = 1;
  std::vector<PhaseResult> phases;
  double seconds = 0;
  std::optional<double> cost;  ///< in the currency of the price
};

}  // namespace scenarios
