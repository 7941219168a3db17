// Real layers, on the CPU or a GPU, by the layers of a profile.

#pragma once

#include <cstdint>
#include <memory>

#include "collectives/transport/transport.hpp"
#include "core/profile.hpp"
#include "planner/job/conditions.hpp"
#include "validate/live/run.hpp"
#include "validate/live/worker.hpp"

namespace live {

/// A model in memory, ready to run; on the CPU on one thread.
class RunningLayers {
 public:
  explicit RunningLayers(const RealLayers& layers);
  ~RunningLayers();
  RunningLayers(const RunningLayers&) = delete;
  RunningLayers& operator=(const RunningLayers&) = delete;

  void forward(std::uint32_t layer);
  void backward(std::uint32_t layer);
  /// Refers to this.
  LayerWork work();

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

/// What layers take where they are computed. The same on all ranks.
struct LayerTimes {
  /// As all workers that compute time them at once, after an all-reduce of all gradients, which leaves caches
  /// as an iteration does: medians over workers and repetitions.
  core::Profile profile;
  /// Of the workers that compute, all-reduces beside.
  planner::Overlap overlap;
};
/// `engine`: what carries the groups.
LayerTimes measured_layers(transport::Transport& transport, measure::Engine& engine, const RunSpec& spec,
                           std::uint32_t repetitions);

/// A profile of these layers before anything was measured, for the groups of a plan.
core::Profile profile_of(const RealLayers& layers);

}  // namespace live
