#include "core/model/divided.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/printable.hpp"

namespace core {
namespace {

std::int64_t part_of(std::int64_t whole, std::int64_t workers) { return (whole + workers - 1) / workers; }

void divide_dimension(Tensor& tensor, std::size_t dimension, std::int64_t workers) {
  tensor.shape[dimension] = part_of(tensor.shape[dimension], workers);
  tensor.elements = element_count(tensor.shape);
}

/// Whether a layer computes parts of its output from parts of its inputs.
bool works_on_parts(LayerKind kind) {
  switch (kind) {
    case LayerKind::relu:
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::tanh:
    case LayerKind::hardtanh:
    case LayerKind::dropout:
    case LayerKind::multiply:
    case LayerKind::flatten:
    case LayerKind::transpose:
    case LayerKind::select:
    case LayerKind::rotary:
    case LayerKind::attention: return true;
    default: return false;
  }
}

/// By layer: whether all that reads its output can do with a part of it, up to the next linear layer or the
/// loss. `whole`: outputs that have to be whole for another reason.
std::vector<bool> may_be_parts(const Model& model, const std::vector<bool>& whole) {
  std::vector<bool> out(model.layers.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = !whole[i];
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const LayerKind kind = model.layers[i].kind;
    const bool takes_parts =
        kind == LayerKind::linear || kind == LayerKind::cross_entropy || (works_on_parts(kind) && out[i]);
    if (takes_parts) continue;
    for (const std::size_t input : model.layers[i].inputs) out[input] = false;
  }
  return out;
}

bool reads_parts(const Layer& layer, const std::vector<bool>& is_divided) {
  return !layer.inputs.empty() &&
         std::ranges::all_of(layer.inputs, [&](std::size_t input) { return is_divided[input]; });
}

/// By layer: whether each worker has a part of its output. Where a layer would read parts beside something
/// whole, what it reads stays whole.
std::vector<bool> divided_outputs(const Model& model) {
  std::vector<bool> whole(model.layers.size());
  for (;;) {
    const std::vector<bool> may = may_be_parts(model, whole);
    std::vector<bool> out(model.layers.size());
    bool is_mixed = false;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Layer& layer = model.layers[i];
      const bool parts = reads_parts(layer, out);
      out[i] = layer.kind == LayerKind::linear ? !parts && may[i] : parts && works_on_parts(layer.kind);
      if (parts) continue;
      for (const std::size_t input : layer.inputs)
        if (out[input]) is_mixed = whole[input] = true;
    }
    if (!is_mixed) return out;
  }
}

class Divider {
 public:
  Divider(Model model, const ModelDivision& division)
      : model_(std::move(model)), division_(division), is_divided_(divided_outputs(model_)) {}

  Model run() && {
    for (std::size_t i = 0; i < model_.layers.size(); ++i) divide(model_.layers[i], is_divided_[i]);
    return std::move(model_);
  }

 private:
  void divide(Layer& layer, bool yields_parts) const {
    const bool of_parts = reads_parts(layer, is_divided_);
    if (layer.kind == LayerKind::embedding)
      for (Tensor& tensor : layer.tensors) divide_dimension(tensor, 0, division_.tensor);
    if (layer.kind == LayerKind::experts) divide_experts(layer);
    if (!of_parts && !yields_parts) return;
    if (layer.kind == LayerKind::attention) check_heads(layer);
    layer.forward_flops /= static_cast<double>(division_.tensor);
    for (Tensor& tensor : layer.tensors) {
      if (layer.kind != LayerKind::linear) break;
      if (!of_parts || tensor.shape.size() > 1)  // the bias is added to the sum
        divide_dimension(tensor, of_parts ? 1 : 0, division_.tensor);
    }
    if (layer.kind != LayerKind::linear || yields_parts) divide_kept(layer, yields_parts);
  }

  /// Divides what is kept for the backward pass, which often is the output.
  void divide_kept(Layer& layer, bool with_output) const {
    const bool keeps_output = layer.activation_elements == element_count(layer.output);
    if (with_output && !layer.output.empty())
      layer.output.back() = part_of(layer.output.back(), division_.tensor);
    layer.activation_elements = with_output && keeps_output
                                    ? element_count(layer.output)
                                    : part_of(layer.activation_elements, division_.tensor);
  }

  void check_heads(const Layer& layer) const {
    const auto& attention = std::get<Attention>(layer.parameters);
    for (const std::int64_t heads : {attention.heads, attention.key_value_heads})
      if (heads % division_.tensor != 0)
        throw Unsupported(
            fmt::format("a model with numbers of heads that tensor {} divides", division_.tensor),
            fmt::format("{} in '{}'", heads, printable(layer.name)));
  }

  /// Every worker's share of the experts computes as many positions as its own, if all are chosen alike.
  void divide_experts(Layer& layer) const {
    const auto& experts = std::get<Experts>(layer.parameters);
    if (experts.experts % division_.expert != 0)
      throw Unsupported(
          fmt::format("a model with numbers of experts that expert {} divides", division_.expert),
          fmt::format("{} in '{}'", experts.experts, printable(layer.name)));
    layer.forward_flops /= static_cast<double>(division_.tensor);
    for (Tensor& tensor : layer.tensors) {
      divide_dimension(tensor, 0, division_.expert);
      const auto hidden = std::ranges::find(tensor.shape.begin() + 1, tensor.shape.end(), experts.hidden);
      if (hidden != tensor.shape.end())
        divide_dimension(tensor, static_cast<std::size_t>(hidden - tensor.shape.begin()), division_.tensor);
    }
    // For each position and chosen expert: gate, up, and their product.
    constexpr std::int64_t kHiddenKept = 3;
    const std::int64_t copies = kHiddenKept * layer.output.front() * experts.chosen;
    layer.activation_elements -= copies * (experts.hidden - part_of(experts.hidden, division_.tensor));
  }

  Model model_;
  ModelDivision division_;
  std::vector<bool> is_divided_;
};

}  // namespace

Model divided(Model model, const ModelDivision& division) {
  if (division == ModelDivision{}) return model;
  return Divider(std::move(model), division).run();
}

}  // namespace core
