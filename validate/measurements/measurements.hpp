// Measured throughputs of others, as CSV, and the set-up on which they were measured.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/schedule/schedule.hpp"

namespace validate {

struct Measurement {
  std::int64_t line = 0;  ///< in the file, from 1
  std::string model;
  std::string network;
  std::string schedule;
  std::int64_t workers = 1;
  double samples_per_s = 0;  ///< 0 if the row has an iteration time instead
  std::optional<double> iteration_us = {};
};

/// Reads CSV whose first line is `model,network,schedule,workers,samples_per_s`, columns in any order, or
/// with `iteration_us` in place of the last; throws InputError with `source` and the line.
std::vector<Measurement> read_measurements(std::string_view text, const std::string& source);

/// A profile with the slow-down that it states, if any.
struct SetupModel {
  core::Profile profile;
  std::optional<core::ProfileOverlap> overlap = {};
};

/// A schedule that rows may name, of all models and numbers of workers or of the given ones only: a plan
/// holds for one of each.
struct SetupSchedule {
  std::string name;
  std::string model;         ///< empty: any
  std::int64_t workers = 0;  ///< 0: any
  planner::Schedule schedule;
};

/// The meaning of the names in measurements.
struct Setup {
  std::map<std::string, SetupModel> models;
  std::map<std::string, core::Network> networks;
  std::vector<SetupSchedule> schedules;  ///< in addition to the named schedules
  planner::Algorithm all_reduce;
};

/// Reads and checks `fusewise.setup`; throws InputError.
Setup read_setup(const core::Field& field);

/// The first schedule of the set-up that a row may mean; nullptr if there is none.
const planner::Schedule* schedule_of(const Setup& setup, const Measurement& row);

/// Returns the rows that `option` selects: `KEY=VALUE` for a column (or `line`); several comma-separated
/// conditions must all hold. Throws InputError if no row matches.
std::vector<bool> select_rows(const std::vector<Measurement>& rows, const std::string& option);

}  // namespace validate
