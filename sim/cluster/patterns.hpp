// The table of collectives whose message patterns are known, by name.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sim/cluster/patterns/entry.hpp"

namespace cluster {

std::span<const PatternEntry> patterns();

/// Returns nullptr if there is no such name.
const PatternEntry* find_pattern(std::string_view name);

/// Returns the number of messages of a collective, or an upper bound where some ranks pause in some rounds.
std::uint64_t message_count(const Collective& how);

}  // namespace cluster
