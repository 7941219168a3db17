#include "profiler/layers/cuda/operation.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace profiler::cuda {
namespace {

using core::LayerKind;

constexpr std::array kKinds = {
    Kind{LayerKind::conv2d, conv2d},
    Kind{LayerKind::max_pool, pool2d, pool_room},
    Kind{LayerKind::avg_pool, pool2d},
    Kind{LayerKind::adaptive_avg_pool, adaptive_avg_pool},
    Kind{LayerKind::batch_norm, batch_norm, batch_norm_room},
    Kind{LayerKind::lrn, lrn, lrn_room},
    Kind{LayerKind::linear, linear, linear_room},
    Kind{LayerKind::relu, activation},
    Kind{LayerKind::gelu, mapping},
    Kind{LayerKind::silu, mapping},
    Kind{LayerKind::tanh, activation},
    Kind{LayerKind::hardtanh, mapping},
    Kind{LayerKind::dropout, dropout},
    Kind{LayerKind::add, addition},
    Kind{LayerKind::multiply, multiplication, multiplication_room},
    Kind{LayerKind::concat, concat},
    Kind{LayerKind::transpose, transpose},
    Kind{LayerKind::select, select},
    Kind{LayerKind::layer_norm, row_norm, row_norm_room},
    Kind{LayerKind::rms_norm, row_norm, row_norm_room},
    Kind{LayerKind::embedding, embedding},
    Kind{LayerKind::position_embedding, position_embedding},
    Kind{LayerKind::positional_encoding, positional_encoding, positional_encoding_room},
    Kind{LayerKind::rotary, rotary, rotary_room},
    Kind{LayerKind::attention, attention, attention_room},
    Kind{LayerKind::lstm, lstm, lstm_room},
    Kind{LayerKind::lookahead, lookahead},
    Kind{LayerKind::cross_entropy, cross_entropy, cross_entropy_room},
};

}  // namespace

const Kind& kind_of(LayerKind kind) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& each) { return each.kind == kind; });
  if (found == kKinds.end())
    throw core::InputError(
        fmt::format("expected kinds of layer that a GPU runs, got '{}'", core::name(kind)));
  return *found;
}

Room room_of(const LayerWork& work, double batch, const Arithmetic& arithmetic) {
  const Kind& found = kind_of(work.layer->kind);
  return found.room != nullptr ? found.room(work, batch, arithmetic) : Room{};
}

bool has_float32_weights(LayerKind kind) { return kind == LayerKind::batch_norm; }

}  // namespace profiler::cuda
