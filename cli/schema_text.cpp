#include "cli/schema_text.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/schemas.hpp"
#include "core/json_text.hpp"

namespace cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kReference = "#/$defs/";
constexpr std::string_view kDialect = "https://json-schema.org/draft/2020-12/schema";

/// The name of the definition that a reference leads to, or into.
std::string referred(const std::string& reference) {
  if (!reference.starts_with(kReference)) throw std::invalid_argument("schema: reference " + reference);
  return reference.substr(kReference.size(), reference.find('/', kReference.size()) - kReference.size());
}

ordered_json enumeration(const std::string& table, const ordered_json& except) {
  ordered_json out = ordered_json::array();
  for (const std::string_view name : schema_names(table))
    if (std::ranges::find(except, name) == except.end()) out.push_back(name);
  return out;
}

class Assembly {
 public:
  explicit Assembly(std::string_view format) : root_(opened(format)) {
    add(ordered_json::parse(schema("definitions")).at("$defs"));
  }

  ordered_json finish(std::string_view format) && {
    ordered_json out = {{"$schema", kDialect}, {"$id", full_name(format)}};
    out.update(filled(root_));
    ordered_json definitions = ordered_json::object();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {  // grows while definitions want others
      const std::string name = wanted_[i];
      if (!known_.contains(name)) known_.emplace(name, opened(name));
      definitions[name] = filled(known_.at(name));
    }
    if (!definitions.empty()) out["$defs"] = std::move(definitions);
    return out;
  }

 private:
  static std::string_view schema(std::string_view name) {
    for (const Schema& each : schema_files())
      if (each.name == name) return each.text;
    throw std::invalid_argument("schema: nothing is called " + std::string(name));
  }

  static std::string full_name(std::string_view format) { return fmt::format("fusewise.{}", format); }

  /// A format with the keys of every file; its own definitions are known from now on.
  ordered_json opened(std::string_view format) {
    ordered_json out = ordered_json::parse(schema(format));
    if (const auto own = out.find("$defs"); own != out.end()) {
      add(*own);
      out.erase(own);
    }
    const ordered_json& required = out.at("required");
    if (std::find(required.begin(), required.end(), "format") == required.end()) return out;
    ordered_json properties = {{"format", {{"const", full_name(format)}}}, {"version", {{"const", 1}}}};
    properties.update(out.at("properties"));
    out["properties"] = std::move(properties);
    return out;
  }

  void add(const ordered_json& definitions) {
    for (const auto& [name, definition] : definitions.items())
      if (!known_.emplace(name, definition).second)
        throw std::invalid_argument("schema: two definitions " + name);
  }

  /// Whether the schema of an object leaves it to the program to say that it has no other keys.
  static bool is_closed(const ordered_json& object) {
    return object.contains("properties") && !object.contains("additionalProperties") &&
           !object.contains("oneOf");
  }

  /// A copy with the names of the program in it.
  ordered_json filled(const ordered_json& value) {
    if (!value.is_structured()) return value;
    if (value.is_array()) {
      ordered_json out = ordered_json::array();
      for (const ordered_json& item : value) out.push_back(filled(item));
      return out;
    }
    ordered_json out = ordered_json::object();
    for (const auto& [key, item] : value.items()) {
      if (key == "enumOf")
        out["enum"] = enumeration(item, value.value("except", ordered_json::array()));
      else if (key != "except" && key != "keysOf")
        out[key] = filled(item);
      if (key == "type" && item == "object" && is_closed(value)) out["additionalProperties"] = false;
      if (key == "$ref") want(referred(item));
    }
    if (const auto table = value.find("keysOf"); table != value.end())
      for (const std::string_view name : schema_names(table->get<std::string>()))
        if (!out["properties"].contains(name)) out["properties"][std::string(name)] = true;
    return out;
  }

  void want(const std::string& name) {
    if (std::ranges::find(wanted_, name) == wanted_.end()) wanted_.push_back(name);
  }

  std::map<std::string, ordered_json> known_;  // before root_, which adds to it
  ordered_json root_;
  std::vector<std::string> wanted_;
};

}  // namespace

std::string schema_text(std::string_view format) { return core::json_text(Assembly(format).finish(format)); }

}  // namespace cli
