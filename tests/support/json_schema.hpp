// Whether a document is as a JSON Schema says, as far as the project's schemas go: a keyword that is not
// known here is an error, never passed over.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace support {

/// "/plans/0/name: expected type string" of the first place that is not; empty if all is.
/// std::invalid_argument for a keyword that is not known.
std::string schema_fault(const nlohmann::json& schema, const nlohmann::json& document);

/// The schema of that name, as the program prints it.
nlohmann::json schema(const std::string& name);

}  // namespace support
