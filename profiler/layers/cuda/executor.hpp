// A model in a GPU's memory with a batch of synthetic samples; runs its layers one by one, on the same
// numbers as the CPU executor.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "profiler/layers/cuda/operation.hpp"

namespace profiler::cuda {

/// Returns the bytes of a run: results, weights and their gradients, data stored for backward, the largest
/// scratch buffer, the libraries' workspace and what they load.
double device_bytes(const ModelWork& work, double batch, const Arithmetic& arithmetic);

class Executor {
 public:
  /// Device and work must outlive it. Without a seed, inputs and weights are uninitialized memory. Throws
  /// OutOfMemory, and EnvironmentError with layer and call if a library rejects an operation.
  Executor(Device& device, const ModelWork& work, std::int64_t batch, std::optional<std::uint64_t> seed = 1);

  /// Enqueues work on the device's stream and returns.
  void forward(std::size_t layer);
  /// To be called after the backward pass of every layer that reads its result.
  void backward(std::size_t layer);

  /// Factor on the initial gradients, so that float16 can represent the small ones.
  float loss_scale() const { return device_->arithmetic().type == Type::float16 ? 1024.0F : 1.0F; }
  const Pass& pass(std::size_t layer) const { return passes_[layer]; }
  Device& device() { return *device_; }

  // Copies from and to the device; these wait for pending work.
  std::vector<float> result(std::size_t layer) { return read(results_[work_->layers[layer].source]); }
  void set_result(std::size_t layer, std::span<const float> values) {
    write(results_[work_->layers[layer].source], values);
  }
  std::vector<float> result_gradient(std::size_t layer) {
    return read(gradients_[work_->layers[layer].source]);
  }
  void set_result_gradient(std::size_t layer, std::span<const float> values) {
    write(gradients_[work_->layers[layer].source], values);
  }
  std::vector<float> weight_gradient(const core::TensorRef& tensor) {
    return read(weight_gradients_[tensor.layer][tensor.tensor]);
  }
  void set_weight_gradient(const core::TensorRef& tensor, std::span<const float> values) {
    write(weight_gradients_[tensor.layer][tensor.tensor], values);
  }
  /// An operation may hold its weights' gradients in its own format until they are requested.
  void give_weight_gradients(std::size_t layer);

 private:
  struct Numbers {
    Memory memory;
    Type type = Type::float32;
    std::size_t count = 0;
  };

  Numbers numbers(double count, Type type);
  std::vector<float> read(const Numbers& from);
  void write(const Numbers& to, std::span<const float> values);
  void allocate(std::size_t layer, std::optional<std::uint64_t> seed);
  void allocate_tokens(std::size_t layer, std::size_t count, std::optional<std::uint64_t> seed);
  void connect(std::size_t layer, std::uint64_t seed);

  Device* device_;
  const ModelWork* work_;
  std::int64_t batch_;
  std::vector<Numbers> results_;
  std::vector<Numbers> gradients_;
  std::vector<Memory> kept_;
  std::vector<Memory> tokens_;
  std::vector<std::vector<Numbers>> weights_;
  std::vector<std::vector<Numbers>> weight_gradients_;
  Memory scratch_;
  std::vector<Pass> passes_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

}  // namespace profiler::cuda
