// Measured throughputs of others, as CSV, and the set-up on which they were measured.

#pragma once

#include <cstdint>
#include <map>
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
  double samples_per_s = 0;
};

/// Reads CSV whose first line is `model,network,schedule,workers,samples_per_s`, columns in any order; throws
/// InputError with `source` and the line.
std::vector<Measurement> read_measurements(std::string_view text, const std::string& source);

/// The meaning of the names in measurements.
struct Setup {
  std::map<std::string, core::Profile> models;
  std::map<std::string, core::Network> networks;
  std::map<std::string, planner::Schedule> schedules;  ///< in addition to the named schedules
  planner::Algorithm all_reduce;
};

/// Reads and checks `fusewise.setup`; throws InputError.
Setup read_setup(const core::Field& field);

/// Returns the rows that `wish` selects: `KEY=VALUE` for a column (or `line`); several comma-separated
/// conditions must all hold. Throws InputError if no row matches.
std::vector<bool> select_rows(const std::vector<Measurement>& rows, const std::string& option);

}  // namespace validate
