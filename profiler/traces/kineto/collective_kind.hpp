// Collectives and types of elements by the names that traces and kernels give them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/network.hpp"

namespace kineto {

/// Lower case without underscores, so that "_allgather_base", "AllReduce" and "all_reduce" follow one
/// pattern.
std::string plain_name(std::string_view name);

/// Whether the name of a kernel is one of NCCL's or RCCL's.
bool is_communication_kernel(std::string_view name);

/// Returns nothing for other communication, for example an all-to-all.
std::optional<core::CollectiveKind> collective_kind(std::string_view name);

/// The size of an element by the name of its type, such as "float", "c10::Half" and "Float8_e4m3fn"; 0:
/// unknown.
std::int64_t element_bytes(std::string_view dtype);

}  // namespace kineto
