// Tables as text for a terminal.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace core {

/// A line for each row, the first of which is a header, with two spaces between columns. The columns in
/// `left` are flush left, the others flush right.
std::string aligned(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& left);

}  // namespace core
