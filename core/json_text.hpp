// How this project writes JSON: what fits on a line stands on one, everything else an item a line.

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace core {

/// Ends with a newline. Numbers in their shortest form that reads back the same; never NaN or infinity.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace core
