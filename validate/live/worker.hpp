// A live worker: runs the task graph of one worker on threads and a transport; the simulator runs the same
// graph in simulated time. Its compute thread runs the compute tasks in order and hands collectives to the
// channel's thread as soon as the tasks before them have ended.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "collectives/transport/transport.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Runs real layers instead of waiting.
struct LayerWork {
  std::function<void(std::uint32_t layer)> forward;   ///< layer of the profile
  std::function<void(std::uint32_t layer)> backward;  ///< layer of the profile
  std::function<void()> wake_device;                  ///< before each iteration
};

struct WorkerOptions {
  std::chrono::milliseconds deadline{60'000};
  LayerWork layers = {};  ///< if empty, the worker waits for the layers' times
  /// Transfers dense groups, each in a buffer of its own; if null, the transport does so.
  measure::Engine* engine = nullptr;
  /// Called with the worker's phase before each iteration: "warm-up 1", "iteration 3".
  std::function<void(const std::string& phase)> on_phase = {};
};

/// All ranks call it with the same plan. Every rank checks the result of every iteration. Throws
/// EnvironmentError, prefixed with the phase ("iteration 3, all-reduce of group 2: ..."), if a result is
/// wrong or a rank is lost.
WorkerRecord run_worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
                        const Prediction& plan, const WorkerOptions& options = {});

}  // namespace live
