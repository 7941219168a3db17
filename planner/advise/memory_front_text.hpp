// A front that was written to a file, as a table.

#pragma once

#include <string>

#include "core/field.hpp"

namespace planner {

/// Reads and checks `fusewise.memory-front`; returns what memory_front_text() says of it. Throws InputError.
std::string memory_front_summary(const core::Field& file);

}  // namespace planner
