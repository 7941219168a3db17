// Assigns processors to workers that are processes of one host.

#pragma once

#include <cstdint>

namespace transport {

/// Restricts the calling process, before it has threads, to its share of the available processors: one
/// processor if there are fewer processors than workers, otherwise the same number for each. Without this,
/// the scheduler may for seconds place a computing thread on the same processor as network threads, which
/// makes it take up to twice as long. Does nothing if the system refuses.
void keep_to_share(std::uint32_t worker, std::uint32_t workers);

}  // namespace transport
