// Reads a PyTorch profiler trace event by event, so that memory grows only with what is kept of it.

#pragma once

#include <istream>
#include <string>

#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Accepts both formats, `[...]` and `{"traceEvents": [...]}`, plain or gzip. Throws InputError, with
/// FILE:LINE:COLUMN if it is not JSON.
Trace read_trace(const std::string& path);

/// Throws InputError for a trace without kernels, and says what it is and what to record instead.
void check_has_kernels(const Trace& trace);

}  // namespace kineto
