// The part of a model that one worker computes, where a tensor group divides each layer and an expert group
// the experts.

#pragma once

#include "core/model/division.hpp"
#include "core/model/model.hpp"

namespace core {

/// Divides as Megatron-LM does without sequence parallelism: embeddings by rows; a linear layer by its
/// outputs, if only activations, attention, linear layers and the loss read them; the linear layer after that
/// by its inputs, and the outputs of all workers are summed; attention by heads, and what comes between such
/// layers; experts by their number, and each of them by its hidden features. Norms, routers and everything
/// else are whole on each worker. Parts are rounded up. Throws Unsupported if heads or experts cannot be
/// divided evenly.
Model divided(Model model, const ModelDivision& division);

}  // namespace core
