// A worker: its compute thread goes through iterations as the pipeline's program says and hands collectives
// to the channel, as lower() makes tasks of them. Knows no pipeline.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "collectives/transport/transport.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Runs layers for real, in place of waiting.
struct LayerWork {
  std::function<void(std::uint32_t layer)> forward;   ///< of the profile
  std::function<void(std::uint32_t layer)> backward;  ///< likewise
};

struct WorkerOptions {
  std::chrono::milliseconds deadline{60'000};
  LayerWork layers = {};  ///< none: they are waited for
  /// Carries dense groups, each in a buffer of its own; none: the transport does, which else only controls.
  measure::Engine* engine = nullptr;
  /// Told where the worker is before each iteration: "warm-up 1", "iteration 3".
  std::function<void(const std::string& phase)> on_phase = {};
};

/// All ranks call it with the same plan. Every iteration's result is checked on every rank; EnvironmentError,
/// which begins with the phase ("iteration 3, all-reduce of group 2: ..."), where one is wrong or a rank is
/// lost.
WorkerRecord run_worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
                        const Prediction& plan, const WorkerOptions& options = {});

/// Whether what a group costs depends on which workers share a node.
bool needs_nodes(const planner::Compressor& compressor);
bool needs_nodes(const RunSpec& spec);

/// Throws InputError for what the runtime does not do: conditions that are drawn, a pipeline or a profile it
/// cannot run.
void check_runnable(const RunSpec& spec);

/// The same for what the transport alone carries, and other backends do not: encodings, and all-reduces that
/// are asked for by name.
void check_carried(const RunSpec& spec, std::string_view backend);

}  // namespace live
