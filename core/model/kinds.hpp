// The table of layer kinds. To add one: an enumerator (and parameters) in layer.hpp, its rule in one of the
// kinds_*.cpp, declared here, and its line in the table of kinds.cpp.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/model/draft.hpp"
#include "core/model/layer.hpp"

namespace core {

struct Kind {
  LayerKind kind;
  std::string_view name;
  /// The rule: reads the keys, checks the inputs, fills in parameters, output shape, tensors and flops.
  void (*infer)(Draft&);
  /// Keys that it reads besides those of every layer.
  std::vector<std::string_view> keys;
  bool is_view = false;
};

/// Returns every kind that a file may contain.
std::span<const Kind> kinds();

namespace rules {

// kinds_image.cpp
void conv2d(Draft& draft);
void max_pool(Draft& draft);
void avg_pool(Draft& draft);
void adaptive_avg_pool(Draft& draft);
void batch_norm(Draft& draft);
void lrn(Draft& draft);

// kinds_basic.cpp
void linear(Draft& draft);
void gelu(Draft& draft);
void elementwise(Draft& draft);
void hardtanh(Draft& draft);
void dropout(Draft& draft);
void same_shapes(Draft& draft);
void concat(Draft& draft);
void flatten(Draft& draft);
void transpose(Draft& draft);
void select(Draft& draft);
void cross_entropy(Draft& draft);

// kinds_sequence.cpp
void layer_norm(Draft& draft);
void rms_norm(Draft& draft);
void embedding(Draft& draft);
void position_embedding(Draft& draft);
void positional_encoding(Draft& draft);
void rotary(Draft& draft);
void attention(Draft& draft);
void experts(Draft& draft);
void lstm(Draft& draft);
void lookahead(Draft& draft);

}  // namespace rules
}  // namespace core
