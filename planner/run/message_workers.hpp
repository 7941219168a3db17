// Simulates every worker individually with collectives message by message: compute and messages are events of
// one simulation.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/run/worker_accounts.hpp"

namespace planner {

/// The work of a message that shares no link, in the unit of AllWorkers::message_work.
constexpr double kMessageWork = 150;

/// Same contract as simulate_all_workers(), for fidelity `messages` and more than one worker. Throws
/// sim::TooLong.
AllWorkers simulate_by_messages(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown, bool with_path);

}  // namespace planner
