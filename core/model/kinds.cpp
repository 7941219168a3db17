#include "core/model/kinds.hpp"

#include <algorithm>

namespace core {

std::span<const Kind> kinds() {
  static const std::vector<Kind> all = {
      {LayerKind::conv2d,
       "conv2d",
       rules::conv2d,
       {"out_channels", "kernel", "stride", "padding", "dilation", "groups", "bias"}},
      {LayerKind::max_pool, "max_pool", rules::max_pool, {"kernel", "stride", "padding", "ceil_mode"}},
      {LayerKind::avg_pool,
       "avg_pool",
       rules::avg_pool,
       {"kernel", "stride", "padding", "ceil_mode", "count_padding"}},
      {LayerKind::adaptive_avg_pool, "adaptive_avg_pool", rules::adaptive_avg_pool, {"output"}},
      {LayerKind::batch_norm, "batch_norm", rules::batch_norm, {"epsilon"}},
      {LayerKind::lrn, "lrn", rules::lrn, {"size", "alpha", "beta", "k"}},
      {LayerKind::linear, "linear", rules::linear, {"out_features", "bias", "tied_to"}},
      {LayerKind::relu, "relu", rules::elementwise, {}},
      {LayerKind::gelu, "gelu", rules::gelu, {"tanh"}},
      {LayerKind::silu, "silu", rules::elementwise, {}},
      {LayerKind::tanh, "tanh", rules::elementwise, {}},
      {LayerKind::hardtanh, "hardtanh", rules::hardtanh, {"min", "max"}},
      {LayerKind::dropout, "dropout", rules::dropout, {"probability"}},
      {LayerKind::add, "add", rules::same_shapes, {}},
      {LayerKind::multiply, "multiply", rules::same_shapes, {}},
      {LayerKind::concat, "concat", rules::concat, {"axis"}},
      {LayerKind::flatten, "flatten", rules::flatten, {"from"}, true},
      {LayerKind::transpose, "transpose", rules::transpose, {"axes"}},
      {LayerKind::select, "select", rules::select, {"index"}, true},
      {LayerKind::layer_norm, "layer_norm", rules::layer_norm, {"epsilon"}},
      {LayerKind::rms_norm, "rms_norm", rules::rms_norm, {"epsilon"}},
      {LayerKind::embedding, "embedding", rules::embedding, {"entries", "features", "scaled", "tied_to"}},
      {LayerKind::position_embedding,
       "position_embedding",
       rules::position_embedding,
       {"entries", "features"}},
      {LayerKind::positional_encoding, "positional_encoding", rules::positional_encoding, {}},
      {LayerKind::rotary, "rotary", rules::rotary, {"heads", "base"}},
      {LayerKind::attention,
       "attention",
       rules::attention,
       {"heads", "key_value_heads", "causal", "dropout", "fused"}},
      {LayerKind::experts, "experts", rules::experts, {"experts", "chosen", "hidden"}},
      {LayerKind::lstm, "lstm", rules::lstm, {"hidden", "layers", "bidirectional"}},
      {LayerKind::lookahead, "lookahead", rules::lookahead, {"context"}},
      {LayerKind::cross_entropy, "cross_entropy", rules::cross_entropy, {"weight"}},
  };
  return all;
}

std::string_view name(LayerKind kind) {
  if (kind == LayerKind::input) return "input";
  const std::span<const Kind> all = kinds();
  return std::ranges::find(all, kind, &Kind::kind)->name;
}

}  // namespace core
