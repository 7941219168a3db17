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

struct Pass : PassOf<float, GradientRoom> {
  Pool* pool = nullptr;
  ProductFunction product = nullptr;
};

/// Sizes in floats; double, because products of numbers in a file may exceed every integer type.
struct KernelRoom {
  double kept = 0;
  double scratch = 0;
};

using KernelRun = void(const Pass& pass);
using KernelRoomOf = KernelRoom(const LayerWork& work, double batch, int threads);

struct Kernel {
  core::LayerKind kind;
  KernelRun* forward;
  KernelRun* backward;
  KernelRoomOf* room = nullptr;  ///< null: needs none
  KernelRun* prepare = nullptr;  ///< once, before the first forward: fills `kept`
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

KernelRun conv2d_forward, conv2d_backward;
KernelRun max_pool_forward, max_pool_backward;
KernelRun avg_pool_forward, avg_pool_backward;
KernelRun adaptive_avg_pool_forward, adaptive_avg_pool_backward;
KernelRun batch_norm_forward, batch_norm_backward;
KernelRun lrn_forward, lrn_backward;
KernelRun linear_forward, linear_backward;
KernelRun relu_forward, relu_backward;
KernelRun gelu_forward, gelu_backward;
KernelRun silu_forward, silu_backward;
KernelRun tanh_forward, tanh_backward;
KernelRun hardtanh_forward, hardtanh_backward;
KernelRun dropout_forward, dropout_backward;
KernelRun add_forward, add_backward;
KernelRun multiply_forward, multiply_backward;
KernelRun concat_forward, concat_backward;
KernelRun transpose_forward, transpose_backward;
KernelRun select_forward, select_backward;
KernelRun layer_norm_forward, layer_norm_backward;
KernelRun rms_norm_forward, rms_norm_backward;
KernelRun embedding_forward, embedding_backward;
KernelRun position_embedding_forward, position_embedding_backward;
KernelRun positional_encoding_forward, positional_encoding_backward;
KernelRun rotary_forward, rotary_backward;
KernelRun attention_forward, attention_backward;
KernelRun experts_forward, experts_backward;
KernelRun lstm_forward, lstm_backward;
KernelRun lookahead_forward, lookahead_backward;
KernelRun cross_entropy_forward, cross_entropy_backward;
KernelRun positional_encoding_prepare, rotary_prepare;
KernelRoomOf conv2d_room, max_pool_room, batch_norm_room, lrn_room, row_norm_room, positional_encoding_room,
    rotary_room, experts_room, attention_room, lstm_room, cross_entropy_room;

}  // namespace cpu
}  // namespace profiler
