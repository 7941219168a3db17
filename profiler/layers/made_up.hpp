// Synthetic inputs, labels and weights for a model, generated from a seed, the same on every backend.

#pragma once

#include <cstdint>
#include <span>

#include "profiler/layers/work.hpp"

namespace profiler {

/// Returns whether the layer is an input of tokens, whose results are integers.
bool is_of_tokens(const core::Layer& layer);
/// Returns whether the layer reads labels.
bool has_labels(const core::Layer& layer);

/// Mean 0, standard deviation 1.
void fill_input(std::span<float> values, std::uint64_t seed, std::size_t layer);
/// Fills the tokens of an input, or the labels of a loss.
void fill_tokens(std::span<std::int32_t> tokens, std::uint64_t seed, const LayerWork& work);
/// Scales values so that results stay near 1; norm factors are around 1.
void fill_weight(std::span<float> values, std::uint64_t seed, const core::Layer& layer, std::size_t index,
                 std::size_t tensor);
/// Returns the seed of a layer's dropout.
std::uint64_t dropout_seed(std::uint64_t seed, std::size_t layer);

}  // namespace profiler
