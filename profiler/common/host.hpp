// Describes this machine: processor and free memory.

#pragma once

#include <optional>
#include <string>

namespace profiler {

/// "AMD EPYC 7763 64-Core Processor", or "unknown processor".
std::string processor_name();

/// Processors that this process may use.
int processor_count();

/// Returns the bytes that can still be allocated: the system's free memory within the limits of this process
/// and its control group. Nothing if the system does not say.
std::optional<double> free_memory_bytes();

}  // namespace profiler
