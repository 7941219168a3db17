// Reads a PyTorch profiler trace event by event, so that memory grows with what is kept of it alone.

#pragma once

#include <istream>
#include <string>

#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Either form, `[...]` or `{"traceEvents": [...]}`, plain or gzip. Throws InputError, with FILE:LINE:COLUMN
/// where it is no JSON.
Trace read_trace(const std::string& path);

/// Whether the file begins as a trace does; false also where it cannot be read.
bool looks_like_trace(const std::string& path);

}  // namespace kineto
