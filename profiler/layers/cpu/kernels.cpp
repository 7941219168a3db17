#include "profiler/layers/cpu/kernels.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "sim/draws.hpp"

namespace profiler {
namespace {

using core::LayerKind;

constexpr std::array kKernels = {
    Kernel{LayerKind::conv2d, cpu::conv2d_forward, cpu::conv2d_backward, cpu::conv2d_room},
    Kernel{LayerKind::max_pool, cpu::max_pool_forward, cpu::max_pool_backward, cpu::max_pool_room},
    Kernel{LayerKind::avg_pool, cpu::avg_pool_forward, cpu::avg_pool_backward},
    Kernel{LayerKind::adaptive_avg_pool, cpu::adaptive_avg_pool_forward, cpu::adaptive_avg_pool_backward},
    Kernel{LayerKind::batch_norm, cpu::batch_norm_forward, cpu::batch_norm_backward, cpu::batch_norm_room},
    Kernel{LayerKind::lrn, cpu::lrn_forward, cpu::lrn_backward, cpu::lrn_room},
    Kernel{LayerKind::linear, cpu::linear_forward, cpu::linear_backward},
    Kernel{LayerKind::relu, cpu::relu_forward, cpu::relu_backward},
    Kernel{LayerKind::gelu, cpu::gelu_forward, cpu::gelu_backward},
    Kernel{LayerKind::silu, cpu::silu_forward, cpu::silu_backward},
    Kernel{LayerKind::tanh, cpu::tanh_forward, cpu::tanh_backward},
    Kernel{LayerKind::hardtanh, cpu::hardtanh_forward, cpu::hardtanh_backward},
    Kernel{LayerKind::dropout, cpu::dropout_forward, cpu::dropout_backward},
    Kernel{LayerKind::add, cpu::add_forward, cpu::add_backward},
    Kernel{LayerKind::multiply, cpu::multiply_forward, cpu::multiply_backward},
    Kernel{LayerKind::concat, cpu::concat_forward, cpu::concat_backward},
    Kernel{LayerKind::transpose, cpu::transpose_forward, cpu::transpose_backward},
    Kernel{LayerKind::select, cpu::select_forward, cpu::select_backward},
    Kernel{LayerKind::layer_norm, cpu::layer_norm_forward, cpu::layer_norm_backward, cpu::row_norm_room},
    Kernel{LayerKind::rms_norm, cpu::rms_norm_forward, cpu::rms_norm_backward, cpu::row_norm_room},
    Kernel{LayerKind::embedding, cpu::embedding_forward, cpu::embedding_backward},
    Kernel{LayerKind::position_embedding, cpu::position_embedding_forward, cpu::position_embedding_backward},
    Kernel{LayerKind::positional_encoding, cpu::positional_encoding_forward,
           cpu::positional_encoding_backward, cpu::positional_encoding_room,
           cpu::positional_encoding_prepare},
    Kernel{LayerKind::rotary, cpu::rotary_forward, cpu::rotary_backward, cpu::rotary_room,
           cpu::rotary_prepare},
    Kernel{LayerKind::attention, cpu::attention_forward, cpu::attention_backward, cpu::attention_room},
    Kernel{LayerKind::experts, cpu::experts_forward, cpu::experts_backward, cpu::experts_room},
    Kernel{LayerKind::lstm, cpu::lstm_forward, cpu::lstm_backward, cpu::lstm_room},
    Kernel{LayerKind::lookahead, cpu::lookahead_forward, cpu::lookahead_backward},
    Kernel{LayerKind::cross_entropy, cpu::cross_entropy_forward, cpu::cross_entropy_backward,
           cpu::cross_entropy_room},
};

constexpr std::int64_t kLanes = 4;  // random numbers of 16 bits from one word
constexpr unsigned kLaneBits = 16;
constexpr double kLaneValues = 1U << kLaneBits;

struct Drop {
  std::uint64_t below;  ///< a random number below it drops the element
  float kept;           ///< factor on the other elements
};

Drop drop_of(double probability) {
  return {.below = static_cast<std::uint64_t>(probability * kLaneValues),
          .kept = probability < 1 ? static_cast<float>(1 / (1 - probability)) : 0.0F};
}

}  // namespace

const Kernel& kernel(LayerKind kind) {
  const auto* const found = std::ranges::find(kKernels, kind, &Kernel::kind);
  if (found == kKernels.end())
    throw core::InputError(
        fmt::format("expected kinds of layer that the CPU runs, got '{}'", core::name(kind)));
  return *found;
}

void run_product(const Pass& pass, const Product& product) {
  constexpr std::int64_t kGrain = 32;
  constexpr double kWorthSharing = 1 << 16;  // multiply-adds
  const double work = static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                      static_cast<double>(product.inner);
  if (work < kWorthSharing || pass.pool->threads() == 1) return pass.product(product);
  const bool by_columns = product.columns >= product.rows;
  run_ranges(*pass.pool, by_columns ? product.columns : product.rows, kGrain,
             [&](std::int64_t begin, std::int64_t end, int) {
               Product part = product;
               if (by_columns) {
                 part.b += product.b_transposed ? begin * product.b_stride : begin;
                 part.c += begin;
                 part.columns = end - begin;
               } else {
                 part.a += product.a_transposed ? begin : begin * product.a_stride;
                 part.c += begin * product.c_stride;
                 part.rows = end - begin;
               }
               pass.product(part);
             });
}

void dropout_factors(std::uint64_t seed, std::int64_t begin, std::int64_t count, double probability,
                     float* factors) {
  const Drop drop = drop_of(probability);
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = begin + i;
    const std::int64_t lane = index % kLanes;
    if (lane == 0 || i == 0) bits = sim::hash(seed, index / kLanes);
    const std::uint64_t draw = (bits >> (kLaneBits * static_cast<unsigned>(lane))) & 0xffffU;
    factors[i] = draw < drop.below ? 0.0F : drop.kept;
  }
}

float dropout_factor(std::uint64_t seed, std::int64_t index, double probability) {
  float out = 0;
  dropout_factors(seed, index, 1, probability, &out);
  return out;
}

}  // namespace profiler
