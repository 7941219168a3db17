// Whether a document is as a JSON Schema says, as far as the project's schemas go: a keyword that is not
// known here is an error, never passed over.

#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

namespace support {

/// "/plans/0/name: expected type string" of the first place that is not; empty if all is.
/// std::invalid_argument for a keyword that is not known.
std::string schema_fault(const nlohmann::json& schema, const nlohmann::json& document);

/// A part of a schema beside the value in a document that it is about.
struct SchemaMatch {
  const nlohmann::json::json_pointer& node;   ///< the part's place in the schema
  const nlohmann::json::json_pointer& place;  ///< the value's place in the document
  const nlohmann::json& schema;
  const nlohmann::json& value;
  bool applies;  ///< false inside an alternative of oneOf or anyOf that the value does not fit
};
using SchemaVisit = std::function<void(const SchemaMatch&)>;

/// Visits every value of a document with every part of the schema that is about it.
void walk_schema(const nlohmann::json& schema, const nlohmann::json& document, const SchemaVisit& visit);

/// The schema of that name, as the program prints it.
nlohmann::json schema(const std::string& name);

}  // namespace support
