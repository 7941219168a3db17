// Collectives by the names that traces give them and their kernels.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/network.hpp"

namespace kineto {

/// Lower case without underscores, so that "_allgather_base", "AllReduce" and "all_reduce" follow one
/// pattern.
std::string plain_name(std::string_view name);

/// Returns nothing for other communication, for example an all-to-all.
std::optional<core::CollectiveKind> collective_kind(std::string_view name);

}  // namespace kineto
