// A way of running layers and timing them. To add one: a file in backends/ that defines a Backend, and its
// line in the list of backends.cpp.

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
  int threads = 1;    ///< of a backend that has them
  bool tf32 = false;  ///< float32 products with TF32's precision, of a backend that has it
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
  /// One iteration, layer by layer; by layer of the model, 0 where nothing runs.
  virtual void time_layers(std::span<double> forward_us, std::span<double> backward_us) = 0;
  /// One iteration without a look at the clock between layers.
  virtual double time_iteration() = 0;
  /// Layers [from, to), to the end of the last; backward begins with the last.
  virtual void forward(std::size_t from, std::size_t to) = 0;
  virtual void backward(std::size_t from, std::size_t to) = 0;
  /// How it was measured, for whoever reads the profile; after the last iteration.
  virtual std::string conditions() { return {}; }
  /// What it took of the device's memory; none where that is not seen.
  virtual std::optional<double> peak_bytes() { return std::nullopt; }
};

/// A layer on a backend beside the same on the CPU: how far they are apart, as a part of the CPU's.
struct LayerDifference {
  std::string layer;
  double forward = 0;
  double backward = 0;
};

struct Verdict {
  std::vector<LayerDifference> layers;
  double tolerance = 0;  ///< what rounding explains
};

struct Backend {
  std::string_view name;
  std::string_view summary;
  /// Throws EnvironmentError where this machine or this build has no such device, InputError for a type of
  /// numbers that it does not compute in.
  void (*check)(const SessionOptions&);
  /// What open() allocates on the device.
  double (*bytes)(const ModelWork&, double batch_size, const SessionOptions&);
  /// What it has left; none where it does not say.
  std::optional<double> (*free_bytes)();
  /// Refers to the work, which must outlive it.
  std::unique_ptr<Session> (*open)(const ModelWork&, const SessionOptions&);
  /// Null: it is what others are compared with.
  Verdict (*verify)(const ModelWork&, const SessionOptions&) = nullptr;
};

std::span<const Backend> backends();

}  // namespace profiler
