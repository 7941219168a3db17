// The JSON Schemas of docs/schemas, which are compiled into the program.

#pragma once

#include <span>
#include <string_view>

namespace cli {

struct Schema {
  std::string_view name;  ///< "profile" for fusewise.profile
  std::string_view text;
};

std::span<const Schema> schemas();

}  // namespace cli
