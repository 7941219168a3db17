// A live worker: runs the task graph of one worker, which the simulator runs on a clock, on threads and a
// transport. Its compute thread walks the compute tasks in their order and hands collectives to the channel's
// thread as soon as the tasks before them have ended.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "collectives/transport/transport.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Runs layers for real, in place of waiting.
struct LayerWork {
  std::function<void(std::uint32_t layer)> forward;   ///< layer of the profile
  std::function<void(std::uint32_t layer)> backward;  ///< layer of the profile
};

struct WorkerOptions {
  std::chrono::milliseconds deadline{60'000};
  LayerWork layers = {};  ///< none: the worker waits as long as they take
  /// Carries dense groups, each in a buffer of its own; none: the transport carries them, too.
  measure::Engine* engine = nullptr;
  /// Is told the worker's phase before each iteration: "warm-up 1", "iteration 3".
  std::function<void(const std::string& phase)> on_phase = {};
};

/// All ranks call it with the same plan. Every iteration's result is checked on every rank; EnvironmentError,
/// which begins with the phase ("iteration 3, all-reduce of group 2: ..."), where one is wrong or a rank is
/// lost.
WorkerRecord run_worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
                        const Prediction& plan, const WorkerOptions& options = {});

}  // namespace live
