// Takes events that cannot be used out of a trace: those that it holds twice, and those without a time.

#pragma once

#include <string>
#include <vector>

#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Counts in the trace what it drops, and puts the rest in the order of time. Events of the same time are in
/// the order of their numbers, so that their order in the file does not matter.
void clean(Trace& trace);

/// What was dropped while the trace was read.
std::vector<std::string> dropped_text(const Trace& trace);

}  // namespace kineto
