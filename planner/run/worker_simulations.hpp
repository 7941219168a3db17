// The ways to simulate every worker individually, between which simulate_all_workers() chooses. Each has its
// contract.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/worker_accounts.hpp"

namespace planner {

/// The general way where no messages share links: runs one task after the other, each on all workers. With
/// fidelity `messages` it requires rings that share no link.
AllWorkers simulate_task_by_task(const Setting& setting, const Executable& executable,
                                 const std::vector<std::int64_t>& shown, bool with_path);

/// Whether simulate_in_blocks() can run this: closed collectives, no failures, no reading of the input, and
/// no time near the range of the clock.
bool runs_in_blocks(const Setting& setting, const Executable& executable);
/// Where collectives end everywhere at once, workers affect each other only through the last one that is
/// ready for a collective. So a block of workers, whose times fit the first-level cache, runs all tasks up to
/// one that waits for a collective, before the next block does: several times faster.
AllWorkers simulate_in_blocks(const Setting& setting, const Executable& executable,
                              const std::vector<std::int64_t>& shown, bool with_path);

/// The work of a message that shares no link, in the unit of AllWorkers::message_work.
constexpr double kMessageWork = 150;
/// For fidelity `messages` and more than one worker: compute and messages are events of one simulation.
/// Throws sim::TooLong.
AllWorkers simulate_by_messages(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown, bool with_path);

}  // namespace planner
