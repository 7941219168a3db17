// Whether the clocks of workers are comparable, and a common start time.

#pragma once

#include <chrono>

#include "collectives/transport/transport.hpp"

namespace live {

/// Whether all ranks are on one host, whose processes share a steady clock. A collective call; all ranks get
/// the same result.
bool share_clock(transport::Transport& transport);

/// A common start time a few milliseconds ahead. All ranks call it at about the same time. Without a shared
/// clock each rank waits equally long after it receives the message.
std::chrono::steady_clock::time_point common_start(transport::Transport& transport, bool shares_clock);

/// The time of a fixed loop (see profiler/common/noise.hpp) once the other workers are idle after a barrier;
/// detects load from other processes.
double loop_at_rest_us();

}  // namespace live
