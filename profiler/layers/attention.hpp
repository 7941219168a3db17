// The sizes of an attention layer, from its inputs and its output. The same for every backend.

#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "profiler/layers/work.hpp"

namespace profiler {

struct AttentionSizes {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t features = 0;  ///< of a head
  bool is_packed = false;     ///< q, k and v concatenated in one input
  bool is_causal = false;
  double dropout = 0;

  std::int64_t row() const { return heads * features; }
  std::int64_t scores() const { return queries * keys; }
  /// Heads of q that share one of k and v: side by side, their rows are those of one matrix.
  std::int64_t sharing() const { return heads / key_value_heads; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(features)); }
};

inline AttentionSizes attention_sizes(const LayerWork& work) {
  const auto& attention = std::get<core::Attention>(work.layer->parameters);
  const bool is_packed = work.inputs.size() == 1;
  return {.heads = attention.heads,
          .key_value_heads = attention.key_value_heads,
          .queries = work.layer->output[0],
          .keys = is_packed ? work.layer->output[0] : work.inputs[1].shape[0],
          .features = work.layer->output[1] / attention.heads,
          .is_packed = is_packed,
          .is_causal = attention.causal,
          .dropout = attention.dropout};
}

}  // namespace profiler
