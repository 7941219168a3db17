// Reads the kind and the size of a collective from its kernel in a trace.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/network.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Returns the name of a kernel's collective, or else the kernel's own name.
std::string_view collective_name(const Trace& trace, const Kernel& kernel);

/// Returns nothing for what networks do not describe: broadcasts, all-to-alls, point to point.
std::optional<core::CollectiveKind> kind_of(const Trace& trace, const Kernel& kernel);

bool is_broadcast(const Trace& trace, const Kernel& kernel);

/// Returns the number of workers that take part: all processes of the job if the trace does not say; 0 if
/// that is not known.
std::int64_t group_size(const Trace& trace, const Kernel& kernel);

/// The size of a collective as networks define it: the total for scattered and gathered data; 0: not known.
std::int64_t bytes_of(const Trace& trace, const Kernel& kernel);

}  // namespace kineto
