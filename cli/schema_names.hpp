// The names that schemas take from the tables of the program.

#pragma once

#include <string_view>
#include <vector>

namespace cli {

/// The names or keys of a table; std::invalid_argument where there is no such table.
std::vector<std::string_view> schema_names(std::string_view table);

}  // namespace cli
