// Reads a large JSON file element by element: only one element of its top-level arrays is in memory at a
// time.

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.hpp"

namespace ranks {

/// Receives one element of a top-level array with the key of the array ("" if the document itself is the
/// array), or a value of the top-level object that is no array. Returns false to stop reading.
using TakeElement = std::function<bool(std::string_view key, nlohmann::json& value)>;

/// Reads a file, gzip or not. Throws InputError `FILE:LINE:COLUMN: expected JSON, ...`, also for an element
/// that has more than a million values or 64 MiB of text, or is nested deeper than 100.
void for_each_element(const std::string& path, const TakeElement& take);

}  // namespace ranks
