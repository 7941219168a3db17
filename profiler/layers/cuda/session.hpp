// A model on a GPU, timed with events.

#pragma once

#include <memory>
#include <vector>

#include "profiler/layers/backend.hpp"
#include "profiler/layers/cuda/executor.hpp"
#include "profiler/layers/cuda/gate.hpp"
#include "profiler/layers/cuda/sensors.hpp"

namespace profiler::cuda {

/// What a session runs on; tests provide their own.
struct Parts {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Sensors> sensors;  ///< may be null
  const Libraries* libraries = nullptr;
};

/// Opens those of the first GPU. Throws EnvironmentError, "no CUDA device: ...", if there is none.
Parts open_parts();

Arithmetic arithmetic_of(const SessionOptions& options);

class DeviceSession : public Session {
 public:
  DeviceSession(Parts parts, const ModelWork& work, const SessionOptions& options);

  std::string device() const override;
  void time_layers(std::span<double> forward_us, std::span<double> backward_us) override;
  double time_iteration() override;
  void forward(std::size_t from, std::size_t to) override;
  void backward(std::size_t from, std::size_t to) override;
  std::string conditions() override;
  std::optional<double> peak_bytes() override;

 private:
  void run_once();
  void find_event_cost();
  void look_at_memory();

  Parts parts_;
  Arithmetic arithmetic_;
  std::size_t free_before_;
  Device device_;
  Executor executor_;
  Gate gate_;
  std::vector<bool> runs_;
  std::vector<Event> begins_;  ///< of each layer's forward, then of each one's backward
  std::vector<Event> ends_;
  std::vector<double> launches_us_;  ///< the host's part of each iteration
  std::vector<Reading> readings_;
  double event_us_ = 0;  ///< between two events with nothing in between
  std::size_t min_free_;
};

}  // namespace profiler::cuda
