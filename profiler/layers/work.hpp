// The execution plan of a model's layers: which layer reads whose result, which gradients are needed, and
// which layer writes one first. The same for every backend.

#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "core/model/model.hpp"

namespace profiler {

struct InputWork {
  std::size_t source = 0;  ///< the layer that owns the memory: a view has none
  core::Shape shape;       ///< of one sample, as this layer sees it
  bool wants_gradient = false;
  bool adds_gradient = false;  ///< another layer, earlier in backward order, has written part of it
};

struct WeightWork {
  core::TensorRef tensor;
  core::Shape shape;
  bool adds_gradient = false;  ///< another layer that shares it has written part of it
};

struct LayerWork {
  const core::Layer* layer = nullptr;
  std::size_t index = 0;   ///< in the model
  std::size_t source = 0;  ///< owner of its output's memory: itself, or the layer of which it is a view
  std::vector<InputWork> inputs;
  std::vector<WeightWork> weights;  ///< a shared one first
  /// Gradients of sources to zero before its backward, because it adds to them more than once.
  std::vector<std::size_t> zero_first;
  bool is_end = false;  ///< nothing reads its output: backward begins here

  bool runs() const { return layer->kind != core::LayerKind::input && source == index; }
  /// Returns whether a profile lists the layer; pure views are not listed.
  bool is_measured() const { return layer->kind != core::LayerKind::input && !layer->is_view; }
};

/// Refers to the model, which must outlive it.
struct ModelWork {
  const core::Model* model = nullptr;
  std::vector<LayerWork> layers;  ///< as in the model

  /// Returns whether a gradient with respect to this layer's result exists.
  bool has_gradient(std::size_t layer) const { return layers[layer].layer->kind != core::LayerKind::input; }
};

ModelWork make_work(const core::Model& model);

/// One layer on a batch: its inputs and outputs, all in one memory. Samples are contiguous, one after
/// another.
template <typename Element, typename Gradient>
struct PassOf {
  const LayerWork* work = nullptr;
  std::int64_t batch = 1;
  std::uint64_t seed = 0;                ///< for dropout
  std::vector<const Element*> inputs;    ///< null for tokens
  const std::int32_t* tokens = nullptr;  ///< of the first input, or a loss's labels
  std::vector<const Element*> weights;
  Element* output = nullptr;
  Element* kept = nullptr;     ///< data that forward stores for backward, besides inputs and output
  Element* scratch = nullptr;  ///< temporary memory for one call
  const Element* output_gradient = nullptr;
  std::vector<Gradient> input_gradients;
  std::vector<Gradient> weight_gradients;

  const core::Layer& layer() const { return *work->layer; }
  const core::Shape& in(std::size_t i = 0) const { return work->inputs[i].shape; }
  const core::Shape& out() const { return layer().output; }
  std::int64_t in_count(std::size_t i = 0) const { return batch * core::element_count(in(i)); }
  std::int64_t out_count() const { return batch * core::element_count(out()); }
  template <typename Parameters>
  const Parameters& as() const {
    return std::get<Parameters>(layer().parameters);
  }
};

/// The product of the dimensions from `begin` to `end`.
std::int64_t element_count(const core::Shape& shape, std::size_t begin, std::size_t end);

}  // namespace profiler
