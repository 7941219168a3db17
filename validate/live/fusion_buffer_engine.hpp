// Times collectives as live runs transfer groups: into the fusion buffer, over the network, and out of it.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "profiler/measure/backend.hpp"
#include "profiler/measure/run.hpp"
#include "validate/live/fusion_buffer.hpp"

namespace live {

class FusionBufferEngine final : public measure::Engine {
 public:
  FusionBufferEngine(transport::Transport& transport, std::string all_reduce, std::uint32_t workers_per_node);

  void load(std::span<const float> values) override;
  void store(std::span<float> values) override;
  void start(measure::Collective kind) override;
  void finish() override {}
  std::uint32_t keeps() const override { return static_cast<std::uint32_t>(fusion_buffers_.size()); }
  /// Sets up the thread in the same way as a run's communication thread.
  void enter_thread() override;
  std::string algorithm(measure::Collective kind) const override;
  std::string description() const override { return "as live runs carry groups"; }

 private:
  transport::Transport& transport_;
  Method method_;
  std::array<std::vector<float>, measure::kBatch> gradients_;
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers_;
  std::size_t started_ = 0;
  std::size_t stored_ = 0;
  bool leaves_buffer_ = false;
};

}  // namespace live
