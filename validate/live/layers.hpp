// Real layers, on the CPU or a GPU, built from the layers of a profile.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "core/profile.hpp"
#include "planner/job/conditions.hpp"
#include "validate/live/run.hpp"
#include "validate/live/worker.hpp"

namespace live {

/// A model in memory, ready to run; on the CPU with one thread.
class RunningLayers {
 public:
  explicit RunningLayers(const RealLayers& layers);
  ~RunningLayers();
  RunningLayers(const RunningLayers&) = delete;
  RunningLayers& operator=(const RunningLayers&) = delete;

  void forward(std::uint32_t layer);
  void backward(std::uint32_t layer);
  /// A whole iteration that nobody times, if they are on a GPU: its clocks sink while gradients are drawn and
  /// checked, which a training job does not do between iterations.
  void wake_device();
  /// The functions refer to this object.
  LayerWork work();

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

/// Measured layer times and overlap; the same on all ranks.
struct LayerTimes {
  /// Times measured by all computing workers at once, after an all-reduce of all gradients, which leaves
  /// caches as in an iteration: medians over workers and repetitions.
  core::Profile profile;
  /// Slow-down of the computing workers and of concurrent all-reduces.
  planner::Overlap overlap;
};
/// `engine` transfers the groups; `layers` is null on ranks that do not compute.
LayerTimes measured_layers(transport::Transport& transport, measure::Engine& engine, const RunSpec& spec,
                           RunningLayers* layers, std::uint32_t repetitions);

/// A profile of these layers before any measurement, for choosing the groups of a plan.
core::Profile profile_of(const RealLayers& layers);

/// Puts the tensors of each layer into the order of a plan, which begins with the last tensor. All tensors of
/// a layer are ready at once, so that any order inside it is right. measured_layers() keeps the order of
/// the spec's profile.
void order_tensors(core::Profile& profile, const std::vector<std::string>& backward_order);

}  // namespace live
