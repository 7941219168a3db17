// Counts the bytes that a benchmark has allocated, live and peak; replaces the global operator new.

#pragma once

#include <cstddef>

namespace bench {

std::size_t live_bytes();
std::size_t peak_bytes();
/// Sets the peak to the bytes that are live now.
void reset_peak();

}  // namespace bench
