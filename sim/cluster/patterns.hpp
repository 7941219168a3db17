// The table of collectives whose message patterns are known, by name.

#pragma once

#include <span>
#include <string_view>

#include "sim/cluster/patterns/entry.hpp"

namespace cluster {

std::span<const PatternEntry> patterns();

/// Returns nullptr if there is no such name.
const PatternEntry* find_pattern(std::string_view name);

}  // namespace cluster
