#include "tests/support/json_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <regex>
#include <set>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/files.hpp"
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
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
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
    if (keyword == "not") return unless(!fault(said, value, place).empty());
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
    if (keyword == "pattern")
      return unless(!value.is_string() ||
                    std::regex_search(value.get<std::string>(), std::regex(said.get<std::string>())));
    if (keyword == "minProperties")
      return unless(!value.is_object() || value.size() >= said.get<std::size_t>());
    if (keyword == "uniqueItems")
      return unless(!value.is_array() || !said.get<bool>() ||
                    std::set<json>(value.begin(), value.end()).size() == value.size());
    if (keyword == "minItems") return unless(!value.is_array() || value.size() >= said.get<std::size_t>());
    if (keyword == "maxItems") return unless(!value.is_array() || value.size() <= said.get<std::size_t>());
    if (keyword == "required")
      return unless(!value.is_object() || std::ranges::all_of(said, [&](const json& key) {
        return value.contains(key.get<std::string>());
      }));
    if (keyword == "items") return of_items(said, schema, value, place);
    if (keyword == "prefixItems") return of_first_items(said, value, place);
    if (keyword == "properties") return of_properties(said, value, place);
    if (keyword == "additionalProperties") return of_others(said, schema, value, place);
    throw std::invalid_argument("schema: keyword " + keyword);
  }

  std::string of_items(const json& each, const json& schema, const json& value,
                       const std::string& place) const {
    if (!value.is_array()) return "";
    const std::size_t first = schema.contains("prefixItems") ? schema.at("prefixItems").size() : 0;
    for (std::size_t i = first; i < value.size(); ++i) {
      const std::string found = fault(each, value[i], place + "/" + std::to_string(i));
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string of_first_items(const json& schemas, const json& value, const std::string& place) const {
    if (!value.is_array()) return "";
    for (std::size_t i = 0; i < std::min(schemas.size(), value.size()); ++i) {
      const std::string found = fault(schemas[i], value[i], place + "/" + std::to_string(i));
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

namespace {

class Walk {
 public:
  Walk(const json& root, const SchemaVisit& visit) : root_(root), checker_(root), visit_(visit) {}

  void walk(const json::json_pointer& node, const json& value, const json::json_pointer& place,
            bool applies) const {
    const json& schema = root_.at(node);
    if (!schema.is_object()) return;
    visit_({.node = node, .place = place, .schema = schema, .value = value, .applies = applies});
    if (const auto other = schema.find("$ref"); other != schema.end())
      walk(json::json_pointer(other->get<std::string>().substr(1)), value, place, applies);
    for (const char* keyword : {"oneOf", "anyOf"})
      for (std::size_t i = 0; schema.contains(keyword) && i < schema.at(keyword).size(); ++i)
        walk(node / keyword / i, value, place,
             applies && checker_.fault(schema.at(keyword).at(i), value, "").empty());
    if (value.is_object()) walk_members(node, schema, value, place, applies);
    if (value.is_array()) walk_items(node, schema, value, place, applies);
  }

 private:
  void walk_members(const json::json_pointer& node, const json& schema, const json& value,
                    const json::json_pointer& place, bool applies) const {
    const json& properties = schema.value("properties", json::object());
    for (const auto& [key, item] : value.items()) {
      if (properties.contains(key))
        walk(node / "properties" / key, item, place / key, applies);
      else if (schema.contains("additionalProperties"))
        walk(node / "additionalProperties", item, place / key, applies);
    }
  }

  void walk_items(const json::json_pointer& node, const json& schema, const json& value,
                  const json::json_pointer& place, bool applies) const {
    const std::size_t first = schema.contains("prefixItems") ? schema.at("prefixItems").size() : 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < first)
        walk(node / "prefixItems" / i, value[i], place / i, applies);
      else if (schema.contains("items"))
        walk(node / "items", value[i], place / i, applies);
    }
  }

  const json& root_;
  Checker checker_;
  const SchemaVisit& visit_;
};

}  // namespace

std::string schema_fault(const json& schema, const json& document) {
  return Checker(schema).fault(schema, document, "");
}

void walk_schema(const json& schema, const json& document, const SchemaVisit& visit) {
  Walk(schema, visit).walk(json::json_pointer(), document, json::json_pointer(), true);
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> out;
  for (const auto& [key, value] : object.items()) out.insert(key);
  return out;
}

std::set<std::string> enumerated_names(const json& schema) {
  std::set<std::string> out;
  if (const auto list = schema.find("enum"); list != schema.end())
    for (const json& name : *list)
      if (name.is_string()) out.insert(name.get<std::string>());
  if (const auto one = schema.find("const"); one != schema.end() && one->is_string())
    out.insert(one->get<std::string>());
  return out;
}

namespace {

void add_parts(const json& root, const json::json_pointer& node, std::set<std::string>& seen,
               SchemaParts& out) {
  const json& part = root.at(node);
  if (!part.is_object() || !seen.insert(node.to_string()).second) return;
  if (part.contains("properties")) {
    std::set<std::string>& keys = out.keys[node.to_string()];
    for (const auto& [key, value] : part.at("properties").items())
      if (value != json(true)) keys.insert(key);
  }
  if (const std::set<std::string> names = enumerated_names(part); !names.empty())
    out.names.emplace(node.to_string(), names);
  const auto add = [&](const json::json_pointer& inner) { add_parts(root, inner, seen, out); };
  if (part.contains("$ref")) add(json::json_pointer(part.at("$ref").get<std::string>().substr(1)));
  for (const char* keyword : {"items", "additionalProperties"})
    if (part.contains(keyword)) add(node / keyword);
  for (const char* keyword : {"oneOf", "anyOf", "prefixItems"})
    for (std::size_t i = 0; part.contains(keyword) && i < part.at(keyword).size(); ++i)
      add(node / keyword / i);
  if (part.contains("properties"))
    for (const std::string& key : keys_of(part.at("properties"))) add(node / "properties" / key);
}

}  // namespace

SchemaParts schema_parts(const json& schema) {
  SchemaParts out;
  std::set<std::string> seen;
  add_parts(schema, json::json_pointer(), seen, out);
  return out;
}

std::set<std::string> unused_parts(const std::string& name, const std::vector<json>& documents) {
  const json whole = schema(name);
  const json own =
      json::parse(core::read_file(source_dir() / "docs" / "schemas" / ("fusewise." + name + ".schema.json")));
  const auto is_own = [&](const std::string& part) {
    constexpr std::string_view kDefinitions = "/$defs/";
    if (!part.starts_with(kDefinitions)) return true;
    const std::size_t end = part.find('/', kDefinitions.size());
    return own.contains("$defs") &&
           own.at("$defs").contains(part.substr(kDefinitions.size(), end - kDefinitions.size()));
  };
  std::set<std::string> out;
  const SchemaParts parts = schema_parts(whole);
  for (const auto* all : {&parts.keys, &parts.names})
    for (const auto& [part, words] : *all)
      if (is_own(part))
        for (const std::string& word : words) out.insert(part + ": " + word);
  for (const json& document : documents)
    walk_schema(whole, document, [&](const SchemaMatch& match) {
      if (!match.applies) return;
      if (match.value.is_string()) out.erase(match.node.to_string() + ": " + match.value.get<std::string>());
      if (match.value.is_object() && match.schema.contains("properties"))
        for (const auto& [key, value] : match.value.items()) out.erase(match.node.to_string() + ": " + key);
    });
  return out;
}

json schema(const std::string& name) { return json::parse(run_program({"schema", name}).out); }

}  // namespace support
