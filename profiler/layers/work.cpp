#include "profiler/layers/work.hpp"

#include <algorithm>

namespace profiler {
namespace {

using core::Layer;
using core::LayerKind;
using core::Model;

LayerWork work_of(const Model& model, std::size_t index, const std::vector<LayerWork>& before) {
  const Layer& layer = model.layers[index];
  LayerWork out = {.layer = &layer, .index = index, .source = index, .inputs = {}, .weights = {}};
  for (const std::size_t input : layer.inputs)
    out.inputs.push_back({.source = before[input].source, .shape = model.layers[input].output});
  if (layer.kind == LayerKind::flatten) out.source = out.inputs.front().source;
  if (layer.shared_weight) {
    const core::TensorRef& ref = *layer.shared_weight;
    out.weights.push_back({.tensor = ref, .shape = model.layers[ref.layer].tensors[ref.tensor].shape});
  }
  for (std::size_t i = 0; i < layer.tensors.size(); ++i)
    out.weights.push_back({.tensor = {.layer = index, .tensor = i}, .shape = layer.tensors[i].shape});
  return out;
}

/// Records which layer is the first to write each gradient, in backward order.
class FirstWriters {
 public:
  explicit FirstWriters(const Model& model) : results_(model.layers.size()) {
    for (const Layer& layer : model.layers) weights_.emplace_back(layer.tensors.size());
  }

  void visit(LayerWork& work, const ModelWork& all) {
    for (InputWork& input : work.inputs) {
      input.wants_gradient = all.has_gradient(input.source) && reads_numbers(work);
      if (!input.wants_gradient) continue;
      const auto same = [&](const InputWork& other) { return other.source == input.source; };
      const bool is_repeated = std::ranges::count_if(work.inputs, same) > 1;
      if (is_repeated && !results_[input.source]) work.zero_first.push_back(input.source);
      input.adds_gradient = is_repeated || results_[input.source];
      results_[input.source] = true;
    }
    for (WeightWork& weight : work.weights) {
      weight.adds_gradient = weights_[weight.tensor.layer][weight.tensor.tensor];
      weights_[weight.tensor.layer][weight.tensor.tensor] = true;
    }
  }

  bool is_written(std::size_t source) const { return results_[source]; }

 private:
  /// A position embedding only counts positions.
  static bool reads_numbers(const LayerWork& work) {
    return work.layer->kind != LayerKind::position_embedding;
  }

  std::vector<bool> results_;
  std::vector<std::vector<bool>> weights_;
};

}  // namespace

ModelWork make_work(const Model& model) {
  ModelWork out = {.model = &model, .layers = {}};
  for (std::size_t i = 0; i < model.layers.size(); ++i) out.layers.push_back(work_of(model, i, out.layers));
  FirstWriters writers(model);
  for (auto work = out.layers.rbegin(); work != out.layers.rend(); ++work) {
    if (!work->runs()) continue;
    work->is_end = !writers.is_written(work->index);
    writers.visit(*work, out);
  }
  return out;
}

std::int64_t element_count(const core::Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t out = 1;
  for (std::size_t i = begin; i < end; ++i) out *= shape[i];
  return out;
}

}  // namespace profiler
