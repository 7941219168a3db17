// Checks what can be run live.

#pragma once

#include <string_view>

#include "validate/live/run.hpp"

namespace live {

/// Whether the cost of a group depends on which workers share a node.
bool needs_nodes(const planner::Compressor& compressor);
bool needs_nodes(const RunSpec& spec);

/// Throws InputError for features that the runtime does not support: random conditions, or a pipeline or
/// profile that it cannot run.
void check_runnable(const RunSpec& spec);

/// Throws InputError for features that only the transport supports and other backends do not: encodings, and
/// all-reduce algorithms requested by name.
void check_carried(const RunSpec& spec, std::string_view backend);

}  // namespace live
