// The numbers that a model is run on: inputs, labels and weights drawn from a seed, the same on every
// backend.

#pragma once

#include <cstdint>
#include <span>

#include "profiler/layers/work.hpp"

namespace profiler {

/// Is of tokens, whose results are integers.
bool is_of_tokens(const core::Layer& layer);
/// Is told what it should have given.
bool has_labels(const core::Layer& layer);

/// Mean 0, standard deviation 1.
void fill_input(std::span<float> values, std::uint64_t seed, std::size_t layer);
/// The tokens of an input, or a loss's labels.
void fill_tokens(std::span<std::int32_t> tokens, std::uint64_t seed, const LayerWork& work);
/// So that results stay near 1; around 1 for the factors of a norm.
void fill_weight(std::span<float> values, std::uint64_t seed, const core::Layer& layer, std::size_t index,
                 std::size_t tensor);
/// Of what a layer drops.
std::uint64_t dropout_seed(std::uint64_t seed, std::size_t layer);

}  // namespace profiler
