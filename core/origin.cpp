#include "core/origin.hpp"

#include <array>

#include <nlohmann/json.hpp>

namespace core {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"measured", "published", "estimated"};

}  // namespace

Origin read_origin(const core::Field& field) {
  field.allow_only({"kind", "source"});
  const std::string kind = field.at("kind").one_of(kKinds);
  std::size_t index = 0;
  while (kKinds.at(index) != kind) ++index;
  return {.kind = OriginKind{static_cast<int>(index)}, .source = field.at("source").text()};
}

nlohmann::ordered_json to_json(const Origin& origin) {
  return {{"kind", kKinds.at(static_cast<std::size_t>(origin.kind))}, {"source", origin.source}};
}

}  // namespace core
