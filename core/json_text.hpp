// The JSON format of this project: values that fit are on one line, everything else has one item per line.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace core {

/// Ends with a newline. Numbers use the shortest form that reads back the same; they are never NaN or
/// infinity.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace core
