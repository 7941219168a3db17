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
  std::string row;  ///< without the newline at its end
  std::vector<std::string> warnings;
  bool operator==(const Record&) const = default;
};

/// The line before the first row, with its newline; JSON lines have none.
std::string header(const Sweep& sweep, Rows rows);

/// Computes points. Points asked for in order are quickest; one object for each thread.
class Computer {
 public:
  /// `sweep` must outlive this.
  Computer(const Sweep& sweep, Rows rows) : sweep_(sweep), rows_(rows) {}

  /// Throws InputError, naming the point, for what could not be seen before it ran.
  Record compute(std::size_t point);

 private:
  const Sweep& sweep_;
  Rows rows_;
  std::optional<std::size_t> combination_;  ///< that scenario_ is of
  scenarios::Scenario scenario_ = sweep_.base;
  std::vector<planner::Schedule> schedules_;  ///< of that combination, as scenario_ holds one alone
};

}  // namespace sweep
