// Runs ranks as threads of this process: for tests, counts and measurements on one machine.

#pragma once

#include <cstdint>
#include <functional>

#include "collectives/transport/transport.hpp"

namespace transport {

/// Runs `rank` on `size` threads, each with its own transport, and returns when all have. Sent messages wait
/// in memory until they are received. The first exception of a rank is rethrown here, after all others have
/// been unblocked (their send and recv throw TransportError) and have left. No rank waits for ever: it is an
/// error to wait for a rank that has left or while all other ranks wait, and to leave a message unread.
/// std::invalid_argument for size 0.
void run_ranks(std::uint32_t size, const std::function<void(Transport&)>& rank);

}  // namespace transport
