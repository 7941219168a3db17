// The kernels of each kind of layer on the CPU, forward and backward, in float32. To add one: a file in
// kernels/ with its functions, and its line in the table of kernels.cpp.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/layers/cpu/pool.hpp"
#include "profiler/layers/cpu/product.hpp"
#include "profiler/layers/work.hpp"

namespace profiler {

/// The destination of a gradient; null data: it is not needed.
struct GradientRoom {
  float* data = nullptr;
  bool add = false;  ///< adds to the destination instead of replacing it
};

/// One layer on a batch: its inputs and outputs. Samples are contiguous, one after another.
struct Pass {
  const LayerWork* work = nullptr;
  std::int64_t batch = 1;
  Pool* pool = nullptr;
  ProductFunction product = nullptr;
  std::uint64_t seed = 0;                ///< for dropout
  std::vector<const float*> inputs;      ///< null for tokens
  const std::int32_t* tokens = nullptr;  ///< of the first input, or a loss's labels
  std::vector<const float*> weights;
  float* output = nullptr;
  float* kept = nullptr;     ///< data that forward stores for backward, besides inputs and output
  float* scratch = nullptr;  ///< temporary memory for one call
  const float* output_gradient = nullptr;
  std::vector<GradientRoom> input_gradients;
  std::vector<GradientRoom> weight_gradients;

  const core::Layer& layer() const { return *work->layer; }
  const core::Shape& in(std::size_t i = 0) const { return work->inputs[i].shape; }
  const core::Shape& out() const { return work->layer->output; }
  std::int64_t in_count(std::size_t i = 0) const { return batch * core::element_count(in(i)); }
  std::int64_t out_count() const { return batch * core::element_count(out()); }
};

/// Sizes in floats; double, because products of numbers in a file may exceed every integer type.
struct KernelRoom {
  double kept = 0;
  double scratch = 0;
};

struct Kernel {
  core::LayerKind kind;
  void (*forward)(const Pass&);
  void (*backward)(const Pass&);
  KernelRoom (*room)(const LayerWork&, double batch, int threads) = nullptr;  ///< null: needs none
  void (*prepare)(const Pass&) = nullptr;  ///< once, before the first forward: fills `kept`
};

/// Throws InputError for a kind without a kernel.
const Kernel& kernel(core::LayerKind kind);

/// Computes the product; its rows or columns are divided among the pool's threads.
void run_product(const Pass& pass, const Product& product);

/// Returns the dropout factor of an element: 0, or the factor that preserves the mean. The same for the same
/// seed and index.
float dropout_factor(std::uint64_t seed, std::int64_t index, double probability);
/// Computes the factors of `count` elements from `begin` on.
void dropout_factors(std::uint64_t seed, std::int64_t begin, std::int64_t count, double probability,
                     float* factors);

namespace cpu {

void conv2d_forward(const Pass& pass);
void conv2d_backward(const Pass& pass);
KernelRoom conv2d_room(const LayerWork& work, double batch, int threads);
void max_pool_forward(const Pass& pass);
void max_pool_backward(const Pass& pass);
KernelRoom max_pool_room(const LayerWork& work, double batch, int threads);
void avg_pool_forward(const Pass& pass);
void avg_pool_backward(const Pass& pass);
void adaptive_avg_pool_forward(const Pass& pass);
void adaptive_avg_pool_backward(const Pass& pass);
void batch_norm_forward(const Pass& pass);
void batch_norm_backward(const Pass& pass);
KernelRoom batch_norm_room(const LayerWork& work, double batch, int threads);
void lrn_forward(const Pass& pass);
void lrn_backward(const Pass& pass);
KernelRoom lrn_room(const LayerWork& work, double batch, int threads);
void linear_forward(const Pass& pass);
void linear_backward(const Pass& pass);
void relu_forward(const Pass& pass);
void relu_backward(const Pass& pass);
void gelu_forward(const Pass& pass);
void gelu_backward(const Pass& pass);
void silu_forward(const Pass& pass);
void silu_backward(const Pass& pass);
void tanh_forward(const Pass& pass);
void tanh_backward(const Pass& pass);
void hardtanh_forward(const Pass& pass);
void hardtanh_backward(const Pass& pass);
void dropout_forward(const Pass& pass);
void dropout_backward(const Pass& pass);
void add_forward(const Pass& pass);
void add_backward(const Pass& pass);
void multiply_forward(const Pass& pass);
void multiply_backward(const Pass& pass);
void concat_forward(const Pass& pass);
void concat_backward(const Pass& pass);
void transpose_forward(const Pass& pass);
void transpose_backward(const Pass& pass);
void select_forward(const Pass& pass);
void select_backward(const Pass& pass);
void layer_norm_forward(const Pass& pass);
void layer_norm_backward(const Pass& pass);
void rms_norm_forward(const Pass& pass);
void rms_norm_backward(const Pass& pass);
KernelRoom row_norm_room(const LayerWork& work, double batch, int threads);
void embedding_forward(const Pass& pass);
void embedding_backward(const Pass& pass);
void position_embedding_forward(const Pass& pass);
void position_embedding_backward(const Pass& pass);
void positional_encoding_prepare(const Pass& pass);
void positional_encoding_forward(const Pass& pass);
void positional_encoding_backward(const Pass& pass);
KernelRoom positional_encoding_room(const LayerWork& work, double batch, int threads);
void rotary_prepare(const Pass& pass);
void rotary_forward(const Pass& pass);
void rotary_backward(const Pass& pass);
KernelRoom rotary_room(const LayerWork& work, double batch, int threads);
void attention_forward(const Pass& pass);
void attention_backward(const Pass& pass);
void experts_forward(const Pass& pass);
void experts_backward(const Pass& pass);
KernelRoom experts_room(const LayerWork& work, double batch, int threads);
KernelRoom attention_room(const LayerWork& work, double batch, int threads);
void lstm_forward(const Pass& pass);
void lstm_backward(const Pass& pass);
KernelRoom lstm_room(const LayerWork& work, double batch, int threads);
void lookahead_forward(const Pass& pass);
void lookahead_backward(const Pass& pass);
void cross_entropy_forward(const Pass& pass);
void cross_entropy_backward(const Pass& pass);
KernelRoom cross_entropy_room(const LayerWork& work, double batch, int threads);

}  // namespace cpu
}  // namespace profiler
