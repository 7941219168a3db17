// Holds a stream while the host enqueues work on it, so that the work then runs without waiting for launches;
// and the events that time it.

#pragma once

#include <utility>

#include "profiler/layers/cuda/kernels.hpp"
#include "profiler/layers/cuda/runtime.hpp"

namespace profiler::cuda {

class Event {
 public:
  explicit Event(Runtime& runtime) : runtime_(&runtime), event_(runtime.create_event()) {}
  Event(Event&& other) noexcept : runtime_(other.runtime_), event_(std::exchange(other.event_, nullptr)) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) runtime_->destroy_event(event_);
  }

  void record() { runtime_->record(event_); }
  void* get() const { return event_; }

 private:
  Runtime* runtime_;
  void* event_;
};

inline double elapsed_us(Runtime& runtime, const Event& begin, const Event& end) {
  return runtime.elapsed_us(begin.get(), end.get());
}

/// The gate opens by itself after a while: otherwise a call that waits for the device under a closed gate, or
/// more launches than the device queues, would wait for ever. Such late openings are counted.
class Gate {
 public:
  Gate(Runtime& runtime, Kernels& kernels);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  void close();
  void open();
  /// To be called when the device is idle.
  int late() const;

 private:
  Runtime& runtime_;
  Kernels& kernels_;
  int* shared_;  ///< the last ticket that may pass, and how many passed late
  int ticket_ = 0;
};

}  // namespace profiler::cuda
