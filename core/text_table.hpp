// Tables as text for a terminal.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace core {

/// Prints one line per row, of which the first is a header, with two spaces between columns. The columns in
/// `left` are left-aligned, the others right-aligned.
std::string aligned(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& left);

}  // namespace core
