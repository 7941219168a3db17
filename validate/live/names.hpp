// Names of the pieces of an iteration in tables, JSON and timelines.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "validate/live/run.hpp"

namespace live {

/// "all-reduce 3", "forward conv1", counted from 1; in further micro-batches "all-gather 3, micro-batch 2".
std::string name(const Piece& piece, const core::Profile& profile, std::size_t groups);

/// The names of all task kinds, as iteration_json() writes them.
std::vector<std::string_view> task_kinds();

nlohmann::ordered_json iteration_json(const Iteration& iteration);

}  // namespace live
