// A model in memory, with a batch of made-up samples, and its layers run one by one in float32.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/layers/cpu/instruction_sets.hpp"
#include "profiler/layers/cpu/kernels.hpp"

namespace profiler {

/// Where a run's bytes go: results and their gradients, weights and theirs, what backward needs besides, the
/// largest scratch. All layers' results and gradients are held at once.
double cpu_bytes(const ModelWork& work, double batch, int threads);

class CpuExecutor {
 public:
  /// `work` must outlive it. Weights, inputs and labels come from the seed. Throws InputError for a kind of
  /// layer that has no kernel.
  CpuExecutor(const ModelWork& work, std::int64_t batch, int threads, const InstructionSet& set,
              std::uint64_t seed = 1);

  void forward(std::size_t layer);
  /// Once everything that reads its result has run backward.
  void backward(std::size_t layer);

  /// The mean over samples of what the ends of the model add up to, which backward is the gradient of.
  double loss() const;

  std::span<float> result(std::size_t layer) { return results_[work_->layers[layer].source]; }
  std::span<float> result_gradient(std::size_t layer) { return gradients_[work_->layers[layer].source]; }
  std::span<float> weight(const core::TensorRef& tensor) { return weights_[tensor.layer][tensor.tensor]; }
  std::span<float> weight_gradient(const core::TensorRef& tensor) {
    return weight_gradients_[tensor.layer][tensor.tensor];
  }
  /// Of an input of tokens, or of a loss the labels.
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
