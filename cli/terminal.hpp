// The width of terminals, and texts that fit them.

#pragma once

#include <cstddef>
#include <string>

namespace cli {

/// Columns of the terminal to which a descriptor leads; 0 if it leads elsewhere.
std::size_t terminal_width(int descriptor);

/// Breaks long lines at spaces, so that they fit that width; 0: none. The last cell of a row of a table is
/// continued below itself, if there is room; rows of numbers stay whole.
std::string fitted(const std::string& text, std::size_t width);

/// Fits the comments of a script, the lines that begin with "# ". Its other lines stay whole.
std::string fitted_comments(const std::string& script, std::size_t width);

/// The beginning of a line that does not fit that width, with "..." after it; 0: the whole line.
std::string cut_to(const std::string& line, std::size_t width);

}  // namespace cli
