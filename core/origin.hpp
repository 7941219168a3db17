// The origin of numbers. Every profile and network states it, because a plan is as good as its inputs.

#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"

namespace core {

enum class OriginKind { measured, published, estimated };

struct Origin {
  OriginKind kind = OriginKind::estimated;
  std::string source;
  bool operator==(const Origin&) const = default;
};

Origin read_origin(const core::Field& field);
nlohmann::ordered_json to_json(const Origin& origin);

}  // namespace core
