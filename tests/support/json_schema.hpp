// Validates a document against a JSON Schema, as far as the project's schemas need it: an unknown keyword is
// an error, never ignored.

#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace support {

/// Returns the first fault, "/plans/0/name: expected type string"; empty if the document is valid. Throws
/// std::invalid_argument for an unknown keyword.
std::string schema_fault(const nlohmann::json& schema, const nlohmann::json& document);

/// A part of a schema and the value in a document to which it applies.
struct SchemaMatch {
  const nlohmann::json::json_pointer& node;   ///< the part's place in the schema
  const nlohmann::json::json_pointer& place;  ///< the value's place in the document
  const nlohmann::json& schema;
  const nlohmann::json& value;
  bool applies;  ///< false inside an alternative of oneOf or anyOf that the value does not fit
};
using SchemaVisit = std::function<void(const SchemaMatch&)>;

/// Visits every value of a document with every part of the schema that applies to it.
void walk_schema(const nlohmann::json& schema, const nlohmann::json& document, const SchemaVisit& visit);

/// The keys and names that a schema allows, indexed by the location in the schema.
struct SchemaParts {
  /// The keys of "properties" by place. Keys whose schema is just `true` are left out, because another part
  /// of the schema or a table of the program describes them.
  std::map<std::string, std::set<std::string>> keys;
  std::map<std::string, std::set<std::string>> names;  ///< of "enum" and "const"
};
SchemaParts schema_parts(const nlohmann::json& schema);

/// Returns the strings that a part of a schema enumerates, and the keys of an object.
std::set<std::string> enumerated_names(const nlohmann::json& schema);
std::set<std::string> keys_of(const nlohmann::json& object);

/// Returns the keys and names of an output format's schema that none of these documents contains:
/// "/properties/origin: source". Definitions shared with other formats are left out.
std::set<std::string> unused_parts(const std::string& name, const std::vector<nlohmann::json>& documents);

/// Returns the schema of that name, as the program prints it.
nlohmann::json schema(const std::string& name);

}  // namespace support
