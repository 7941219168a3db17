// Tables and the numbers in them, as text for a terminal.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace core {

/// Prints one line per row, of which the first is a header, with two spaces between columns. The columns in
/// `left` are left-aligned, the others right-aligned.
std::string aligned(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& left);

/// "12.345", in milliseconds.
std::string ms(double us);
/// "12.3 %".
std::string percent(double share);
/// "8.0 kB" or "25.6 MB".
std::string size_text(double bytes);

}  // namespace core
