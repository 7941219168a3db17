// Layers on sequences: [length, features].

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/kinds.hpp"

namespace core::rules {
namespace {

void norm(Draft& draft, bool with_bias, double flops_per_element) {
  const Shape& in = draft.input();
  draft.layer.parameters = Norm{.epsilon = draft.number_or("epsilon", 1e-5, 0, 1)};
  draft.layer.output = in;
  draft.tensor("weight", {in.back()});
  if (with_bias) draft.tensor("bias", {in.back()});
  draft.layer.forward_flops = flops_per_element * static_cast<double>(draft.checked_count(in));
}

Embedding read_table(const Draft& draft) {
  return {.entries = draft.integer("entries"),
          .features = draft.integer("features"),
          .scaled = draft.boolean_or("scaled", false)};
}

void check_heads(const Draft& draft, std::int64_t features, std::int64_t heads, std::int64_t multiple) {
  if (features % heads != 0 || features / heads % multiple != 0)
    draft.refuse(fmt::format("features that divide into {} heads{}", heads, multiple == 2 ? " of pairs" : ""),
                 fmt::to_string(features));
}

/// Returns q's and k's shape.
std::pair<Shape, Shape> check_attended(const Draft& draft, const std::vector<Shape>& in,
                                       const Attention& attention) {
  if (in.size() == 2) draft.refuse("1 or 3 inputs", "2");
  if (in.size() == 1) {
    if (attention.key_value_heads != attention.heads)
      draft.refuse("3 inputs, as k and v have fewer heads than q", "1");
    if (in[0][1] % 3 != 0) draft.refuse("features that divide into q, k and v", fmt::to_string(in[0][1]));
    const Shape third = {in[0][0], in[0][1] / 3};
    return {third, third};
  }
  if (in[1] != in[2] || in[0][1] * attention.key_value_heads != in[1][1] * attention.heads)
    draft.refuse(attention.key_value_heads == attention.heads
                     ? "q, k, v of as many features, k and v of one length"
                     : "q, k, v of as many features per head, k and v of one length",
                 fmt::format("{}, {}, {}", text(in[0]), text(in[1]), text(in[2])));
  return {in[0], in[1]};
}

Attention read_attention(const Draft& draft) {
  const std::int64_t heads = draft.integer("heads");
  const Attention out = {.heads = heads,
                         .key_value_heads = draft.integer_or("key_value_heads", heads),
                         .causal = draft.boolean_or("causal", false),
                         .dropout = draft.number_or("dropout", 0, 0, 1)};
  if (heads % out.key_value_heads != 0)
    draft.refuse(fmt::format("key_value_heads that divide {} heads", heads),
                 fmt::to_string(out.key_value_heads));
  return out;
}

}  // namespace

void layer_norm(Draft& draft) { norm(draft, true, 5); }
void rms_norm(Draft& draft) { norm(draft, false, 3); }

void embedding(Draft& draft) {
  const Layer& in = draft.any_input();
  const auto* tokens = std::get_if<Input>(&in.parameters);
  if (tokens == nullptr || tokens->element != Element::token)
    draft.refuse("an input of tokens", fmt::format("numbers from '{}'", printable(in.name)));
  const Embedding table = read_table(draft);
  if (tokens->vocabulary > table.entries)
    draft.refuse(
        fmt::format("at least the {} entries that '{}' needs", tokens->vocabulary, printable(in.name)),
        fmt::to_string(table.entries));
  draft.layer.parameters = table;
  draft.layer.output = in.output;
  draft.layer.output.push_back(table.features);
  draft.tensor("weight", {table.entries, table.features});
}

void position_embedding(Draft& draft) {
  const Layer& in = draft.any_input();
  const Embedding table = read_table(draft);
  if (in.output.front() > table.entries)
    draft.refuse(fmt::format("a sequence of at most {}", table.entries), fmt::to_string(in.output.front()));
  draft.layer.parameters = table;
  draft.layer.output = {in.output.front(), table.features};
  draft.tensor("weight", {table.entries, table.features});
}

void positional_encoding(Draft& draft) {
  draft.layer.output = draft.sequence();
  draft.layer.forward_flops = static_cast<double>(draft.checked_count(draft.layer.output));
}

void rotary(Draft& draft) {
  constexpr double kFlopsPerElement = 3;  // two products and a sum
  const Shape& in = draft.sequence();
  const Rotary rotary = {.heads = draft.integer("heads"), .base = draft.number_or("base", 10000, 1, 1e12)};
  check_heads(draft, in[1], rotary.heads, 2);
  draft.layer.parameters = rotary;
  draft.layer.output = in;
  draft.layer.forward_flops = kFlopsPerElement * static_cast<double>(draft.checked_count(in));
}

void attention(Draft& draft) {
  constexpr double kSoftmaxFlops = 5;
  const std::vector<Shape> in = draft.inputs(1, 3);
  for (const Shape& shape : in)
    if (shape.size() != 2) draft.refuse("inputs of shape [length, features]", text(shape));
  const Attention attention = read_attention(draft);
  const auto [query, key] = check_attended(draft, in, attention);
  check_heads(draft, query[1], attention.heads, 1);
  if (attention.causal && query[0] != key[0])
    draft.refuse("a causal attention over one sequence", fmt::format("lengths {} and {}", query[0], key[0]));
  draft.layer.parameters = attention;
  draft.layer.output = query;
  const std::int64_t scores = draft.checked_count({attention.heads, query[0], key[0]});
  // q k' and the product with v, both without skipping masked positions, as most implementations compute
  // them.
  draft.layer.forward_flops =
      4.0 * static_cast<double>(draft.checked_count(query)) * static_cast<double>(key[0]) +
      kSoftmaxFlops * static_cast<double>(scores);
  // A fused kernel computes the scores piece by piece, and again in its backward pass.
  const bool is_fused = draft.boolean_or("fused", false);
  draft.layer.activation_elements = draft.checked_count(query) + (is_fused ? 0 : scores);
}

void experts(Draft& draft) {
  constexpr double kGateFlops = 2;    // silu and product, for each hidden feature
  constexpr double kRouterFlops = 5;  // a softmax
  const std::vector<Shape> in = draft.inputs(2, 2);
  const Experts experts = {.experts = draft.integer("experts"),
                           .chosen = draft.integer("chosen"),
                           .hidden = draft.integer("hidden")};
  if (experts.chosen > experts.experts)
    draft.refuse(fmt::format("at most {} chosen experts", experts.experts), fmt::to_string(experts.chosen));
  if (in[0].size() != 2 || in[1] != Shape{in[0][0], experts.experts})
    draft.refuse(fmt::format("inputs of shape [length, features] and [length, {}]", experts.experts),
                 fmt::format("{} and {}", text(in[0]), text(in[1])));
  const std::int64_t features = in[0][1];
  draft.layer.parameters = experts;
  draft.layer.output = in[0];
  draft.tensor("gate_proj", {experts.experts, experts.hidden, features});
  draft.tensor("up_proj", {experts.experts, experts.hidden, features});
  draft.tensor("down_proj", {experts.experts, features, experts.hidden});
  // Every position has the same number of experts, whichever these are: only they count.
  const auto hidden = static_cast<double>(draft.checked_count({in[0][0], experts.chosen, experts.hidden}));
  draft.layer.forward_flops = hidden * (3 * 2.0 * static_cast<double>(features) + kGateFlops) +
                              kRouterFlops * static_cast<double>(draft.checked_count(in[1]));
  // Each choice has a copy of its position, both products, their gated product, and its result.
  draft.layer.activation_elements =
      draft.checked_count({in[0][0], experts.chosen, 2 * features + 3 * experts.hidden});
}

void lstm(Draft& draft) {
  constexpr std::int64_t kMaxLayers = 100;
  constexpr std::int64_t kGates = 4;
  const Shape& in = draft.sequence();
  const Lstm lstm = {.hidden = draft.integer("hidden"),
                     .layers = draft.integer_or("layers", 1),
                     .bidirectional = draft.boolean_or("bidirectional", false)};
  if (lstm.layers > kMaxLayers)
    draft.refuse(fmt::format("at most {} layers", kMaxLayers), fmt::to_string(lstm.layers));
  const std::int64_t directions = lstm.bidirectional ? 2 : 1;
  draft.layer.parameters = lstm;
  draft.layer.output = {in[0], directions * lstm.hidden};
  std::int64_t features = in[1];
  for (std::int64_t i = 0; i < lstm.layers; ++i) {
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string end = fmt::format("l{}{}", i, direction == 1 ? "_reverse" : "");
      draft.tensor("weight_ih_" + end, {kGates * lstm.hidden, features});
      draft.tensor("weight_hh_" + end, {kGates * lstm.hidden, lstm.hidden});
      draft.tensor("bias_ih_" + end, {kGates * lstm.hidden});
      draft.tensor("bias_hh_" + end, {kGates * lstm.hidden});
      draft.layer.forward_flops += 2.0 * static_cast<double>(kGates * lstm.hidden) *
                                   static_cast<double>(features + lstm.hidden) * static_cast<double>(in[0]);
    }
    features = directions * lstm.hidden;
  }
  // Gates, cell and output of each step.
  draft.layer.activation_elements =
      draft.checked_count({lstm.layers, directions, in[0], kGates + 2, lstm.hidden});
}

void lookahead(Draft& draft) {
  const Shape& in = draft.sequence();
  const Lookahead lookahead = {.context = draft.integer("context")};
  draft.layer.parameters = lookahead;
  draft.layer.output = in;
  draft.tensor("weight", {in[1], lookahead.context + 1});
  draft.layer.forward_flops =
      2.0 * static_cast<double>(draft.checked_count(in)) * static_cast<double>(lookahead.context + 1);
}

}  // namespace core::rules
