// Counts the bytes that a benchmark has allocated, live and at most; replaces the global operator new.

#pragma once

#include <cstddef>

namespace bench {

std::size_t live_bytes();
std::size_t peak_bytes();
/// Starts the peak anew from what is live.
void reset_peak();

}  // namespace bench
