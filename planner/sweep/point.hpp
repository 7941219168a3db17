// One point of a sweep as a row of its output.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "planner/sweep/sweep.hpp"

namespace sweep {

enum class Rows { csv, json_lines };

std::string_view name(Rows rows);

struct Record {
  std::string row;  ///< without the trailing newline
  std::vector<std::string> warnings;
  bool operator==(const Record&) const = default;
};

/// The line before the first row, with its newline; empty for JSON lines.
std::string header(const Sweep& sweep, Rows rows);

/// Computes points, fastest when requested in order. Use one object per thread.
class Computer {
 public:
  /// `sweep` must outlive this object.
  Computer(const Sweep& sweep, Rows rows) : sweep_(sweep), rows_(rows) {}

  /// Throws InputError that names the point for errors that only the run reveals.
  Record compute(std::size_t point);

 private:
  const Sweep& sweep_;
  Rows rows_;
  std::optional<std::size_t> combination_;  ///< the combination that scenario_ holds
  scenarios::Scenario scenario_ = sweep_.base;
  std::vector<planner::Schedule> schedules_;  ///< of that combination; scenario_ holds only one of them
};

}  // namespace sweep
