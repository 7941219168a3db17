// The JSON Schemas of docs/schemas, which are compiled into the program.

#pragma once

#include <span>
#include <string_view>

namespace cli {

struct Schema {
  std::string_view name;  ///< "profile" for fusewise.profile
  std::string_view text;
};

/// Every file: the formats and, last, what they share, "definitions".
std::span<const Schema> schema_files();

/// The files of formats.
inline std::span<const Schema> schemas() { return schema_files().first(schema_files().size() - 1); }

}  // namespace cli
