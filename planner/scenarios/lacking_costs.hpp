// What a network does not measure of the collectives that a schedule sends.

#pragma once

#include "core/network.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

/// Whether the schedule sends all-reduces and the network did not measure them, as one that was imported from
/// a trace of FSDP: only reduce-scatters and all-gathers were measured.
bool lacks_all_reduces(const core::Network& network, const planner::Schedule& schedule);

}  // namespace scenarios
