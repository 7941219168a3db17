// Low-latency scheduling for a thread that serves the network beside computing threads: it mostly waits,
// works briefly, and is late if it does not get a processor at once.

#pragma once

#include <functional>

namespace transport {

/// Gives the calling thread timers with microsecond resolution and short time slices, so that (Linux 6.12 and
/// later) it runs before a computing thread has used its whole slice. Settings that the system does not
/// support are skipped.
void use_low_latency_scheduling();

/// Runs `work` in a new low-latency thread, so that the calling thread keeps its settings; exceptions are
/// rethrown here.
void run_with_low_latency(const std::function<void()>& work);

}  // namespace transport
