// Tables and the numbers in them, as text for a terminal.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace core {

/// Prints one line per row, of which the first is a header, with two spaces between columns. The columns in
/// `left` are left-aligned, the others right-aligned. Where lines would exceed the width (0: any width fits),
/// titles and the cells of left-aligned columns continue in the lines below, and columns without room
/// follow in another table, which begins with the first column as well.
std::string aligned(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& left,
                    std::size_t width = 0);

/// "12.345", in milliseconds.
std::string ms(double us);
/// "12.3 %".
std::string percent(double share);
/// "8.0 kB" or "25.6 MB".
std::string size_text(double bytes);

}  // namespace core
