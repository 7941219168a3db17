// The interface of backends that run layers and time them. To add one: a file in backends/ that defines a
// Backend, and its line in the list of backends.cpp.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/profile.hpp"
#include "profiler/layers/work.hpp"

namespace profiler {

struct SessionOptions {
  std::int64_t batch_size = 1;
  core::Dtype dtype = core::Dtype::float32;
  int threads = 1;    ///< for backends with threads
  bool tf32 = false;  ///< float32 products with TF32's precision, if the backend has it
};

/// A model in a device's memory, ready to run. Times are microseconds.
class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// "AMD EPYC, 2 threads, avx2"
  virtual std::string device() const = 0;
  /// Times one iteration layer by layer; results are indexed by layer of the model, 0 where nothing runs.
  virtual void time_layers(std::span<double> forward_us, std::span<double> backward_us) = 0;
  /// Times one iteration without timing individual layers.
  virtual double time_iteration() = 0;
  /// Runs layers [from, to), and returns when the last has ended; backward begins with the last layer.
  virtual void forward(std::size_t from, std::size_t to) = 0;
  virtual void backward(std::size_t from, std::size_t to) = 0;
  /// Describes the conditions of the measurement for the reader of the profile; to be called after the last
  /// iteration.
  virtual std::string conditions() { return {}; }
  /// Returns the peak of device memory in bytes; none if unknown.
  virtual std::optional<double> peak_bytes() { return std::nullopt; }
};

/// The relative difference between a layer on a backend and the same layer on the CPU.
struct LayerDifference {
  std::string layer;
  double forward = 0;
  double backward = 0;
};

struct Verdict {
  std::vector<LayerDifference> layers;
  double tolerance = 0;  ///< explained by rounding
};

struct Backend {
  std::string_view name;
  std::string_view summary;
  /// Throws EnvironmentError if this machine or build has no such device, InputError for a number type that
  /// it does not support.
  void (*check)(const SessionOptions&);
  /// Returns the bytes that open() allocates on the device.
  double (*bytes)(const ModelWork&, double batch_size, const SessionOptions&);
  /// Returns the device's free memory; none if unknown.
  std::optional<double> (*free_bytes)();
  /// Refers to the work, which must outlive it.
  std::unique_ptr<Session> (*open)(const ModelWork&, const SessionOptions&);
  /// Null for the reference backend.
  Verdict (*verify)(const ModelWork&, const SessionOptions&) = nullptr;
};

std::span<const Backend> backends();

}  // namespace profiler
