#include "profiler/layers/made_up.hpp"

#include <cmath>

#include "sim/draws.hpp"

namespace profiler {
namespace {

using core::LayerKind;

/// The purpose of a random number, besides seed, layer and index.
enum class Purpose : std::uint64_t { input, weight, token, dropout };

std::uint64_t state_of(std::uint64_t seed, std::size_t layer, Purpose what) {
  return sim::hash(seed, layer, static_cast<std::uint64_t>(what));
}

/// Uniform with standard deviation `scale` around `mean`.
void fill(std::span<float> values, std::uint64_t state, float scale, float mean) {
  constexpr unsigned kShift = 40;
  constexpr float kSteps = 16'777'216;  // 2^24
  const float width = 2 * 1.7320508F * scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto draw = static_cast<float>(sim::hash_on(state, i) >> kShift) / kSteps;
    values[i] = mean + width * (draw - 0.5F);
  }
}

bool is_norm(LayerKind kind) {
  return kind == LayerKind::batch_norm || kind == LayerKind::layer_norm || kind == LayerKind::rms_norm;
}

/// The number of terms in each output of a matrix determines the size of its elements.
float scale_of(const core::Shape& shape) {
  if (shape.size() < 2) return 0.1F;
  std::int64_t inner = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) inner *= shape[i];
  return 1 / std::sqrt(static_cast<float>(inner));
}

}  // namespace

bool is_of_tokens(const core::Layer& layer) {
  const auto* input = std::get_if<core::Input>(&layer.parameters);
  return input != nullptr && input->element == core::Element::token;
}

bool has_labels(const core::Layer& layer) { return layer.kind == LayerKind::cross_entropy; }

void fill_input(std::span<float> values, std::uint64_t seed, std::size_t layer) {
  fill(values, state_of(seed, layer, Purpose::input), 1, 0);
}

void fill_tokens(std::span<std::int32_t> tokens, std::uint64_t seed, const LayerWork& work) {
  const auto* input = std::get_if<core::Input>(&work.layer->parameters);
  const std::int64_t values = input != nullptr ? input->vocabulary : work.inputs[0].shape.back();
  const std::uint64_t state = state_of(seed, work.index, Purpose::token);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(sim::hash_on(state, i) % static_cast<std::uint64_t>(values));
}

void fill_weight(std::span<float> values, std::uint64_t seed, const core::Layer& layer, std::size_t index,
                 std::size_t tensor) {
  const float mean = is_norm(layer.kind) && tensor == 0 ? 1 : 0;
  fill(values, sim::hash_on(state_of(seed, index, Purpose::weight), tensor),
       scale_of(layer.tensors[tensor].shape), mean);
}

std::uint64_t dropout_seed(std::uint64_t seed, std::size_t layer) {
  return state_of(seed, layer, Purpose::dropout);
}

}  // namespace profiler
