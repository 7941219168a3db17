// Whether workers can compare what their clocks say, and begin at the same time.

#pragma once

#include <chrono>

#include "collectives/transport/transport.hpp"

namespace live {

/// Whether all ranks are on one host, whose processes share a steady clock. All call it, and all get the
/// same.
bool share_clock(transport::Transport& transport);

/// All call it at about the same time: when to begin, a few milliseconds later. Where clocks differ each
/// begins as long after it was told.
std::chrono::steady_clock::time_point common_start(transport::Transport& transport, bool shares_clock);

/// What a fixed loop takes (see profiler/common/noise.hpp) once the other workers have come to rest after a
/// barrier: it is to feel who else is there.
double loop_at_rest_us();

}  // namespace live
