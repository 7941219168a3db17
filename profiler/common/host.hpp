// What this machine is, and how much memory it has left.

#pragma once

#include <optional>
#include <string>

namespace profiler {

/// "AMD EPYC 7763 64-Core Processor", or "unknown processor".
std::string processor_name();

/// Processors that this process may run on.
int processor_count();

/// Bytes that can still be allocated: what the system has, within this process's and its control group's
/// limits. None where the system does not say.
std::optional<double> free_memory_bytes();

}  // namespace profiler
