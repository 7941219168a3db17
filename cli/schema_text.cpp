#include "cli/schema_text.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/schema_names.hpp"
#include "cli/schemas.hpp"
#include "core/json_text.hpp"

namespace cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kReference = "#/$defs/";

/// The name of the definition that a reference leads to, or into.
std::string referred(const std::string& reference) {
  if (!reference.starts_with(kReference)) throw std::invalid_argument("schema: reference " + reference);
  return reference.substr(kReference.size(), reference.find('/', kReference.size()) - kReference.size());
}

ordered_json enumeration(const std::string& table, const ordered_json& except) {
  ordered_json out = ordered_json::array();
  for (const std::string_view name : schema_names(table))
    if (std::find(except.begin(), except.end(), name) == except.end()) out.push_back(name);
  return out;
}

class Assembly {
 public:
  explicit Assembly(std::string_view format) : root_(opened(schema(format))) {
    add(ordered_json::parse(schema("definitions")).at("$defs"));
  }

  ordered_json finish() && {
    root_ = filled(root_);
    ordered_json definitions = ordered_json::object();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {  // grows while definitions want others
      const std::string name = wanted_[i];
      if (!known_.contains(name)) known_.emplace(name, as_definition(opened(schema(name))));
      definitions[name] = filled(known_.at(name));
    }
    if (!definitions.empty()) root_["$defs"] = std::move(definitions);
    return std::move(root_);
  }

 private:
  static std::string_view schema(std::string_view name) {
    for (const Schema& each : schema_files())
      if (each.name == name) return each.text;
    throw std::invalid_argument("schema: nothing is called " + std::string(name));
  }

  /// A format whose own definitions are known from now on.
  ordered_json opened(std::string_view text) {
    ordered_json out = ordered_json::parse(text);
    if (const auto own = out.find("$defs"); own != out.end()) {
      add(*own);
      out.erase(own);
    }
    return out;
  }

  void add(const ordered_json& definitions) {
    for (const auto& [name, definition] : definitions.items())
      if (!known_.emplace(name, definition).second)
        throw std::invalid_argument("schema: two definitions " + name);
  }

  static ordered_json as_definition(ordered_json format) {
    format.erase("$schema");
    format.erase("$id");
    return format;
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
      if (key == "$ref") want(referred(item));
    }
    if (const auto table = value.find("keysOf"); table != value.end())
      for (const std::string_view name : schema_names(table->get<std::string>()))
        if (!out["properties"].contains(name)) out["properties"][std::string(name)] = true;
    return out;
  }

  void want(const std::string& name) {
    if (std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end()) wanted_.push_back(name);
  }

  std::map<std::string, ordered_json> known_;  // before root_, which adds to it
  ordered_json root_;
  std::vector<std::string> wanted_;
};

}  // namespace

std::string schema_text(std::string_view format) { return core::json_text(Assembly(format).finish()); }

}  // namespace cli
