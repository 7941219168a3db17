// Validates a document against a JSON Schema, as far as the project's schemas need it: an unknown keyword is
// an error, never ignored.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace support {

/// Returns the first fault, "/plans/0/name: expected type string"; empty if the document is valid. Throws
/// std::invalid_argument for an unknown keyword.
std::string schema_fault(const nlohmann::json& schema, const nlohmann::json& document);

/// Returns the schema of that name, as the program prints it.
nlohmann::json schema(const std::string& name);

}  // namespace support
