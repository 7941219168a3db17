// What a model's layers are to run: who reads whose result, which gradients are wanted, and who is first to
// write one. The same for every backend.

#pragma once

#include <cstddef>
#include <vector>

#include "core/model/model.hpp"

namespace profiler {

struct InputWork {
  std::size_t source = 0;  ///< the layer whose memory it is: what only looks at a layer's result has none
  core::Shape shape;       ///< of one sample, as this layer sees it
  bool wants_gradient = false;
  bool adds_gradient = false;  ///< another layer, run before in backward order, has written some
};

struct WeightWork {
  core::TensorRef tensor;
  core::Shape shape;
  bool adds_gradient = false;  ///< likewise, where layers share it
};

struct LayerWork {
  const core::Layer* layer = nullptr;
  std::size_t index = 0;   ///< in the model
  std::size_t source = 0;  ///< whose memory its output is: its own, or that of what it looks at
  std::vector<InputWork> inputs;
  std::vector<WeightWork> weights;  ///< a shared one first
  /// Gradients of sources to set to 0 before its backward: it adds to them more than once.
  std::vector<std::size_t> zero_first;
  bool is_end = false;  ///< nothing reads its output: backward begins here

  bool runs() const { return layer->kind != core::LayerKind::input && source == index; }
  /// Whether a profile lists it; what moves and computes nothing it does not.
  bool is_measured() const { return layer->kind != core::LayerKind::input && !layer->is_view; }
};

/// Refers to the model, which must outlive it.
struct ModelWork {
  const core::Model* model = nullptr;
  std::vector<LayerWork> layers;  ///< as in the model

  /// Whether a gradient with respect to this layer's result exists.
  bool has_gradient(std::size_t layer) const { return layers[layer].layer->kind != core::LayerKind::input; }
};

ModelWork make_work(const core::Model& model);

}  // namespace profiler
