// A model in memory with a batch of synthetic samples; runs its layers one by one in float32.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/layers/cpu/instruction_sets.hpp"
#include "profiler/layers/cpu/kernels.hpp"

namespace profiler {

/// Returns the bytes of a run: results, weights and their gradients, data stored for backward, and the
/// largest scratch buffer. All layers' results and gradients are held at once.
double cpu_bytes(const ModelWork& work, double batch, int threads);

class CpuExecutor {
 public:
  /// `work` must outlive it. Weights, inputs and labels are generated from the seed. Throws InputError for a
  /// kind of layer without a kernel.
  CpuExecutor(const ModelWork& work, std::int64_t batch, int threads, const InstructionSet& set,
              std::uint64_t seed = 1);

  void forward(std::size_t layer);
  /// To be called after the backward pass of every layer that reads its result.
  void backward(std::size_t layer);

  /// Returns the mean over samples of the sum of the model's final outputs, whose gradient backward computes.
  double loss() const;

  std::span<float> result(std::size_t layer) { return results_[work_->layers[layer].source]; }
  std::span<float> result_gradient(std::size_t layer) { return gradients_[work_->layers[layer].source]; }
  std::span<float> weight(const core::TensorRef& tensor) { return weights_[tensor.layer][tensor.tensor]; }
  std::span<float> weight_gradient(const core::TensorRef& tensor) {
    return weight_gradients_[tensor.layer][tensor.tensor];
  }
  /// Returns the tokens of an input, or the labels of a loss.
  std::span<std::int32_t> tokens(std::size_t layer) { return tokens_[layer]; }
  const Pass& pass(std::size_t layer) const { return passes_[layer]; }

 private:
  void allocate(std::size_t layer, std::uint64_t seed);
  void connect(std::size_t layer, std::uint64_t seed);

  const ModelWork* work_;
  std::int64_t batch_;
  Pool pool_;
  ProductFunction product_;
  std::vector<std::vector<float>> results_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::vector<float>> kept_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::vector<std::vector<float>>> weights_;
  std::vector<std::vector<std::vector<float>>> weight_gradients_;
  std::vector<float> scratch_;
  std::vector<Pass> passes_;
};

}  // namespace profiler
