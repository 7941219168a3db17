// The JSON Schemas of the file formats, complete: the files of docs/schemas hold what is written by hand.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// The schema of a format in one document. In the files under docs/schemas
/// - `"$ref": "#/$defs/NAME"` names a definition of the file itself, one of fusewise.definitions, or a
/// format;
/// - `"enumOf": "TABLE"` stands for `"enum"` with the names of a table of the program, less those of
/// "except";
/// - `"keysOf": "TABLE"` adds the keys of a table to "properties";
/// - a format has the keys "format" and "version" where it requires "format";
/// - an object with "type" and "properties" takes no other keys, unless it has "additionalProperties" or
/// "oneOf".
std::string schema_text(std::string_view format);

/// The names or keys of a table of the program; std::invalid_argument where there is no such table.
std::vector<std::string_view> schema_names(std::string_view table);

}  // namespace cli
