#include "tests/support/json_schema.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tests/support/program.hpp"

namespace support {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  if (type == "null") return value.is_null();
  throw std::invalid_argument("schema: type " + type);
}

class Checker {
 public:
  explicit Checker(const json& root) : root_(root) {}

  std::string fault(const json& schema, const json& value, const std::string& place) const {
    if (schema.is_boolean())
      return schema.get<bool>() ? "" : (place.empty() ? "/" : place) + ": expected nothing there";
    for (const auto& [keyword, said] : schema.items()) {
      const std::string found = fault_of(keyword, said, schema, value, place);
      if (!found.empty()) return found;
    }
    return "";
  }

 private:
  /// Keywords that do not constrain a value.
  static bool is_remark(std::string_view keyword) {
    constexpr std::array<std::string_view, 6> kRemarks = {"$schema", "$id",     "$defs",
                                                          "title",   "default", "description"};
    return std::ranges::find(kRemarks, keyword) != kRemarks.end();
  }

  std::string fault_of(const std::string& keyword, const json& said, const json& schema, const json& value,
                       const std::string& place) const {
    const auto unless = [&](bool holds) {
      return holds ? "" : (place.empty() ? "/" : place) + ": expected " + keyword + " " + said.dump();
    };
    if (is_remark(keyword)) return "";
    if (keyword == "$ref")
      return fault(root_.at(json::json_pointer(said.get<std::string>().substr(1))), value, place);
    if (keyword == "const") return unless(value == said);
    if (keyword == "enum") return unless(std::ranges::find(said, value) != said.end());
    if (keyword == "type") return unless(has_type(value, said.get<std::string>()));
    if (keyword == "anyOf" || keyword == "oneOf") {
      const auto fits =
          std::ranges::count_if(said, [&](const json& each) { return fault(each, value, place).empty(); });
      return unless(keyword == "anyOf" ? fits > 0 : fits == 1);
    }
    // The other keywords apply only to values of their own type.
    if (keyword == "minimum") return unless(!value.is_number() || value >= said);
    if (keyword == "maximum") return unless(!value.is_number() || value <= said);
    if (keyword == "exclusiveMinimum") return unless(!value.is_number() || value > said);
    if (keyword == "minLength")
      return unless(!value.is_string() || value.get<std::string>().size() >= said.get<std::size_t>());
    if (keyword == "minItems") return unless(!value.is_array() || value.size() >= said.get<std::size_t>());
    if (keyword == "maxItems") return unless(!value.is_array() || value.size() <= said.get<std::size_t>());
    if (keyword == "required")
      return unless(!value.is_object() || std::ranges::all_of(said, [&](const json& key) {
        return value.contains(key.get<std::string>());
      }));
    if (keyword == "items") return of_items(said, value, place);
    if (keyword == "properties") return of_properties(said, value, place);
    if (keyword == "additionalProperties") return of_others(said, schema, value, place);
    throw std::invalid_argument("schema: keyword " + keyword);
  }

  std::string of_items(const json& each, const json& value, const std::string& place) const {
    if (!value.is_array()) return "";
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string found = fault(each, value[i], place + "/" + std::to_string(i));
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string of_properties(const json& properties, const json& value, const std::string& place) const {
    if (!value.is_object()) return "";
    for (const auto& [key, each] : properties.items()) {
      if (!value.contains(key)) continue;
      const std::string found = fault(each, value.at(key), place + "/" + key);
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string of_others(const json& each, const json& schema, const json& value,
                        const std::string& place) const {
    if (!value.is_object()) return "";
    for (const auto& [key, item] : value.items()) {
      if (schema.contains("properties") && schema.at("properties").contains(key)) continue;
      const std::string found = fault(each, item, place + "/" + key);
      if (!found.empty()) return found;
    }
    return "";
  }

  const json& root_;
};

}  // namespace

std::string schema_fault(const json& schema, const json& document) {
  return Checker(schema).fault(schema, document, "");
}

json schema(const std::string& name) { return json::parse(run_program({"schema", name}).out); }

}  // namespace support
