// A thread that serves the network beside others that compute: it waits much, works briefly and is late where
// it does not get a processor at once.

#pragma once

#include <functional>

namespace transport {

/// For the calling thread: timers to the microsecond, and short turns on a processor, so that (Linux 6.12 and
/// later) it is let in before who computes has had a whole turn. What a system does not know changes nothing.
void be_prompt();

/// In a thread of its own that is prompt, so that the calling one stays as it is; what it throws is thrown
/// here.
void run_promptly(const std::function<void()>& work);

}  // namespace transport
