// What can be run live.

#pragma once

#include <string_view>

#include "validate/live/run.hpp"

namespace live {

/// Whether what a group costs depends on which workers share a node.
bool needs_nodes(const planner::Compressor& compressor);
bool needs_nodes(const RunSpec& spec);

/// Throws InputError for what the runtime does not do: conditions that are drawn, a pipeline or a profile it
/// cannot run.
void check_runnable(const RunSpec& spec);

/// Throws InputError for what the transport alone carries, and other backends do not: encodings, and
/// all-reduces that are asked for by name.
void check_carried(const RunSpec& spec, std::string_view backend);

}  // namespace live
