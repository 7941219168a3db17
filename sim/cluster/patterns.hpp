// The collectives whose messages are known, by name.

#pragma once

#include <span>
#include <string_view>

#include "sim/cluster/patterns/entry.hpp"

namespace cluster {

std::span<const PatternEntry> patterns();

/// nullptr: none has this name.
const PatternEntry* find_pattern(std::string_view name);

}  // namespace cluster
