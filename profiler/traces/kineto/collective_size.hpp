// What a kernel of communication in a trace does, and how much it carries.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// What a kernel that communicates does: its collective's name, or else its own.
std::string_view collective_name(const Trace& trace, const Kernel& kernel);

/// Returns nothing for what networks do not describe: broadcasts, all-to-alls, point to point.
std::optional<core::CollectiveKind> kind_of(const Trace& trace, const Kernel& kernel);

/// How many take part: all processes of the job where the trace does not say; 0: not known.
std::int64_t group_size(const Trace& trace, const Kernel& kernel);

/// The size of a collective as networks define it: the total for scattered and gathered data; 0: not known.
std::int64_t bytes_of(const Trace& trace, const Kernel& kernel);

/// The type of most elements that all-reduces and reduce-scatters carry; float32 if no trace shows it.
core::Dtype gradient_dtype(const Trace& trace);

}  // namespace kineto
