// Optional keys of a fusion. A fusion that is only a name has none.

#pragma once

#include <optional>
#include <string_view>

#include "core/field.hpp"

namespace planner {

inline std::optional<core::Field> fusion_key(const core::Field& field, std::string_view key) {
  return field.is_object() ? field.find(key) : std::nullopt;
}

inline double fusion_number(const core::Field& field, std::string_view key, double min, double max,
                            double otherwise) {
  const std::optional<core::Field> found = fusion_key(field, key);
  return found ? found->number(min, max) : otherwise;
}

}  // namespace planner
