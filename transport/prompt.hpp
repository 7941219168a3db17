// A thread that serves the network beside others that compute: it waits much, works briefly and is late where
// it does not get a processor at once.

#pragma once

namespace transport {

/// For the calling thread: timers to the microsecond, and short turns on a processor, so that (Linux 6.12 and
/// later) it is let in before who computes has had a whole turn. What a system does not know changes nothing.
void be_prompt();

}  // namespace transport
