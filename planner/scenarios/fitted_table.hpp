// Tables that fit the terminal.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace scenarios {

using Rows = std::vector<std::vector<std::string>>;

/// How a table becomes narrower where it does not fit the terminal.
struct Narrowing {
  std::vector<std::size_t> left;          ///< the columns that are aligned to the left
  bool has_marks = false;                 ///< whether the last column is, too
  std::size_t name = 1;                   ///< the column whose long names are continued in rows below
  std::string_view unit;                  ///< that titles end with and that is then left out of them
  std::vector<std::string_view> columns;  ///< titles, without unit, of those that are left out, in this order
  std::string_view complete;              ///< what shows them, too
};

/// The table; where it does not fit that width (0: it always does), first without the units, then without
/// columns, with a line that says so, and at last with long names on several lines.
std::string fitted_table(Rows rows, std::size_t width, const Narrowing& how);

}  // namespace scenarios
